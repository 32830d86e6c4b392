"""Sum of one bucket of DistributedDataParallel: agrees on scales, then sums packed values.

Only methods that the hook calls start collectives, so these have the order of the calls. The
callbacks that threads of the process group run are local.
"""

import torch
import torch.distributed as dist

_QUANTIZED = (torch.float32, torch.float16, torch.bfloat16)


def is_quantized(buffer):
    """Return whether a bucket with this buffer can be quantized."""
    return buffer.layout == torch.strided and buffer.dtype in _QUANTIZED


def whole(group, ranks, buffer):
    """Average a bucket without quantization; return its future."""
    work = dist.all_reduce(buffer, group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0].div_(ranks))


class Job:
    """Sum of a bucket that `is_quantized`.

    Does not keep the process group: a thread of the group frees the job, and would wait for itself
    if that were the last reference to the group.

    Attributes:
        future: the mean, in the bucket's own buffer.
        payload: bytes that this rank gives to collectives, once `send` was called.
    """

    def __init__(self, ranks, plan, buffer):
        self._ranks, self._plan, self._buffer = ranks, plan, buffer
        # Shares memory with the buffer if that is float32 in host memory.
        self._values = buffer.detach().to("cpu", torch.float32)
        self._sent = torch.futures.Future(devices=_devices(buffer))
        self._works = []
        self.future = self._sent.then(self._received)
        self.payload = 0

    def agree(self, group, digest, residual_of):
        """Start the MAX of the scales, and of a digest that must be the same on all ranks.

        Args:
            group: a process group.
            digest: an int32 that is not negative.
            residual_of: returns the residual of a layer's key and number of values; None without
                error feedback.
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
        """Wait for the scales, and start the sums.

        Args:
            group: the same process group.
            key_of: returns the key of the random numbers of a layer, an uint64.

        Raises:
            ValueError: the ranks' settings differ. Raised on all ranks.
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
        """Decode the sums. Runs on a thread of the process group."""
        self._done.wait()  # raises the error of a failed sum
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
