"""Job for one bucket of DistributedDataParallel: agrees on scales, then sums packed values.

Only the methods that the hook calls start collectives, so these come in the order of the calls.
What a thread of the process group runs when a sum is there is local.
"""

import torch
import torch.distributed as dist

_QUANTIZED = (torch.float32, torch.float16, torch.bfloat16)


def is_quantized(buffer):
    """True where a bucket with this buffer may be sent in fewer bits."""
    return buffer.layout == torch.strided and buffer.dtype in _QUANTIZED


def whole(group, ranks, buffer):
    """The future of a bucket that is averaged as it is."""
    work = dist.all_reduce(buffer, group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0].div_(ranks))


class Job:
    """Job for a bucket that `is_quantized`.

    It keeps no process group: a thread of the group frees it, and one that freed the last reference
    to its own group would wait for its own end.

    Attributes:
        future: its mean, in the bucket's own buffer.
        payload: bytes that this rank gives to collectives, once `send` was called.
    """

    def __init__(self, ranks, plan, buffer):
        self._ranks, self._plan, self._buffer = ranks, plan, buffer
        # The buffer itself where it is float32 in host memory.
        self._values = buffer.detach().to("cpu", torch.float32)
        self._sent = torch.futures.Future(devices=_devices(buffer))
        self._works = []
        self.future = self._sent.then(self._received)
        self.payload = 0

    def agree(self, group, digest, residual_of):
        """Starts the MAX of the scales, and of what must be the same on all ranks.

        Args:
            group: a process group.
            digest: an int32 that is not negative.
            residual_of: of a layer's key and number of values, the residual; None without error
                feedback.
        """
        plan = self._plan
        self._sources = [self._values[layer.values] for layer in plan.layers]
        if residual_of is not None:
            self._sources = [
                residual_of(layer.key, len(values)).add_(values)
                for layer, values in zip(plan.layers, self._sources)
            ]
        self._keep = residual_of is not None
        self._digest = digest
        if not plan.layers:
            return
        self._scales = torch.empty(plan.scales + 2, dtype=torch.int32)
        self._scales[-2:] = torch.tensor([digest, ~digest])
        for layer, values in zip(plan.layers, self._sources):
            layer.codec.largest(values, self._scales[layer.scales])
        self._agreeing = dist.all_reduce(
            self._scales, op=dist.ReduceOp.MAX, group=group, async_op=True
        )

    def send(self, group, key_of):
        """Waits for the scales, and starts the sums.

        Args:
            group: the same process group.
            key_of: of a layer's key, that of its random numbers, an uint64.

        Raises:
            ValueError: the ranks' settings differ, on all ranks.
        """
        plan, tensors = self._plan, []
        if plan.layers:
            self._agreeing.wait()
            if self._scales[-2:].tolist() != [self._digest, ~self._digest]:
                raise ValueError(
                    "the settings of QuantizedState differ between ranks: change them on all ranks "
                    "before the same step"
                )
            self._words = torch.empty(plan.words, dtype=torch.int32)
            for layer, values in zip(plan.layers, self._sources):
                scales, words = self._scales[layer.scales], self._words[layer.words]
                layer.codec.encode(values, scales, words, self._keep, key_of(layer.key))
            tensors.append(self._words)
            self.payload += 4 * len(self._scales)
        if plan.plain:
            self._rest = torch.cat([self._values[place] for place in plan.plain])
            tensors.append(self._rest)
        self.payload += sum(4 * len(tensor) for tensor in tensors)
        self._works = [dist.all_reduce(one, group=group, async_op=True) for one in tensors]
        self._done = torch.futures.collect_all([work.get_future() for work in self._works])
        self._done.add_done_callback(lambda _: self._sent.set_result(None))

    def _received(self, _):
        """Runs on a thread of the process group when the sums are there."""
        self._done.wait()  # raises what a sum has failed with
        plan = self._plan
        for layer in plan.layers:
            scales, words = self._scales[layer.scales], self._words[layer.words]
            layer.codec.decode(words, scales, self._values[layer.values], self._ranks)
        if plan.plain:
            self._rest /= self._ranks
            sizes = [place.stop - place.start for place in plan.plain]
            for place, values in zip(plan.plain, self._rest.split(sizes)):
                self._values[place] = values
        if self._values.data_ptr() != self._buffer.data_ptr():
            self._buffer.copy_(self._values)
        return self._buffer


def _devices(buffer):
    return [buffer.device] if buffer.device.type == "cuda" else None
