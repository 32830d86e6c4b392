"""Sum of one bucket of DistributedDataParallel: agree on scales, then sum packed values.

The communication hook calls `agree` and `send` of each bucket, in the thread of the backward pass,
and only these start collectives. So the collectives have the order of these calls. Threads of the
process group run the callbacks, which only decode.
"""

import torch
import torch.distributed as dist

_QUANTIZED_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def can_quantize(buffer):
    """Return whether a bucket with this buffer can be quantized."""
    return buffer.layout == torch.strided and buffer.dtype in _QUANTIZED_TYPES


def average_unquantized(group, ranks, buffer):
    """Average a bucket without quantization; return its future."""
    work = dist.all_reduce(buffer, group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0].div_(ranks))


class QuantizedSum:
    """Sum of a bucket that `can_quantize`.

    1. `agree` computes the scales of this rank, and starts the MAX over the ranks.
    2. `send` waits for the MAX, packs the values, and starts the sums of words and plain values.
    3. When all sums are done, a thread of the process group decodes them into the buffer.

    It does not keep the process group: a thread of the group frees this object, and would wait for
    itself if that were the last reference to the group.

    Attributes:
        future: the mean, in the bucket's own buffer.
        payload: bytes that this rank gives to collectives, after `send`.
    """

    def __init__(self, ranks, layout, buffer):
        self._ranks, self._layout, self._buffer = ranks, layout, buffer
        # Shares memory with the buffer if that is float32 in host memory.
        self._values = buffer.detach().to("cpu", torch.float32)
        self._sent = torch.futures.Future(devices=_devices(buffer))
        self._works = []
        self.future = self._sent.then(self._decode)
        self.payload = 0

    def agree(self, group, digest, residual_of):
        """Start the MAX of the scales, and of a digest that must be the same on all ranks.

        Args:
            group: a process group.
            digest: an int32 that is not negative.
            residual_of: returns the residual of a parameter with a number of values; None without
                error feedback.
        """
        layout = self._layout
        self._sources = [self._values[layer.values] for layer in layout.quantized]
        if residual_of is not None:
            self._sources = [
                residual_of(layer.parameter, len(values)).add_(values)
                for layer, values in zip(layout.quantized, self._sources)
            ]
        self._keep = residual_of is not None
        self._digest = digest
        if not layout.quantized:
            return
        self._scales = torch.empty(layout.scales + 2, dtype=torch.int32)
        self._scales[-2:] = torch.tensor([digest, ~digest])
        for layer, values in zip(layout.quantized, self._sources):
            layer.codec.largest(values, self._scales[layer.scales])
        self._agreement = dist.all_reduce(
            self._scales, op=dist.ReduceOp.MAX, group=group, async_op=True
        )

    def send(self, group, key_of):
        """Wait for the scales, and start the sums.

        Args:
            group: the same process group.
            key_of: returns the key of the random numbers of a parameter, an uint64.

        Raises:
            ValueError: the ranks' settings differ. Raised on all ranks.
        """
        layout, tensors = self._layout, []
        if layout.quantized:
            self._agreement.wait()
            if self._scales[-2:].tolist() != [self._digest, ~self._digest]:
                raise ValueError(
                    "the settings of QuantizedState differ between ranks: change them on all ranks "
                    "before the same step"
                )
            self._words = torch.empty(layout.words, dtype=torch.int32)
            for layer, values in zip(layout.quantized, self._sources):
                scales, words = self._scales[layer.scales], self._words[layer.words]
                layer.codec.encode(values, scales, words, self._keep, key_of(layer.parameter))
            tensors.append(self._words)
            self.payload += 4 * len(self._scales)
        if layout.plain:
            self._plain = torch.cat([self._values[span] for span in layout.plain])
            tensors.append(self._plain)
        self.payload += sum(4 * len(tensor) for tensor in tensors)
        self._works = [dist.all_reduce(one, group=group, async_op=True) for one in tensors]
        self._done = torch.futures.collect_all([work.get_future() for work in self._works])
        self._done.add_done_callback(lambda _: self._sent.set_result(None))

    def _decode(self, _):
        """Decode the sums into the buffer. Runs on a thread of the process group."""
        self._done.wait()  # raises the error of a failed sum
        layout = self._layout
        for layer in layout.quantized:
            scales, words = self._scales[layer.scales], self._words[layer.words]
            layer.codec.decode(words, scales, self._values[layer.values], self._ranks)
        if layout.plain:
            self._plain /= self._ranks
            sizes = [span.stop - span.start for span in layout.plain]
            for span, values in zip(layout.plain, self._plain.split(sizes)):
                self._values[span] = values
        if self._values.data_ptr() != self._buffer.data_ptr():
            self._buffer.copy_(self._values)
        return self._buffer


def _devices(buffer):
    """Return the devices of a future of the buffer."""
    return [buffer.device] if buffer.device.type == "cuda" else None
