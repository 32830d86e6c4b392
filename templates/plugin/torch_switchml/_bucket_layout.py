"""Layout of one bucket of DistributedDataParallel: which of its values are quantized, and where.

Each layer is a range of the bucket's buffer. Its first values, or none of them, are quantized. The
other values of all layers are one tensor, which is summed without quantization.
"""

from typing import NamedTuple


class QuantizedRange(NamedTuple):
    """Quantized values of a layer: ranges of the buffer, and of the arrays of all layers."""

    parameter: object
    codec: object
    """A `QuantizedLayer` of the extension module."""
    values: slice
    """In the bucket's buffer."""
    scales: slice
    words: slice


class BucketLayout:
    """Layout of one bucket.

    Attributes:
        quantized: the quantized range of each layer that has one.
        scales: number of scales of all layers.
        words: number of words of all layers.
        plain: ranges of the buffer that are not quantized, ascending and not empty.
    """

    def __init__(self, settings, layers, make_codec):
        """Lay out a bucket.

        Args:
            settings: a `Settings`.
            layers: parameter, name or None, and range of the buffer of each layer.
            make_codec: makes a codec for a number of values and bits.
        """
        self.quantized, self.plain = [], []
        self.scales = self.words = 0
        for parameter, name, span in layers:
            numel, bits = settings.quantized(name, span.stop - span.start)
            end = span.start + numel
            if numel:
                self._add_quantized(parameter, make_codec(numel, bits), slice(span.start, end))
            if end < span.stop:
                self._add_plain(slice(end, span.stop))

    def _add_quantized(self, parameter, codec, values):
        scales = slice(self.scales, self.scales + codec.scales)
        words = slice(self.words, self.words + codec.words)
        self.scales, self.words = scales.stop, words.stop
        self.quantized.append(QuantizedRange(parameter, codec, values, scales, words))

    def _add_plain(self, span):
        if self.plain and self.plain[-1].stop == span.start:
            span = slice(self.plain.pop().start, span.stop)
        self.plain.append(span)
