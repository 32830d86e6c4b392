"""Plan of the layers in one bucket of DistributedDataParallel.

Each layer is a range of the bucket's buffer. None or the first of its values are quantized. The
other values of all layers are one tensor, which is summed as it is.
"""

from typing import NamedTuple


class Layer(NamedTuple):
    """Quantized layer: ranges of the buffer, and of the arrays of all layers."""

    key: object
    """The parameter."""
    codec: object
    """A `QuantizedLayer` of the extension module."""
    values: slice
    scales: slice
    words: slice


class Plan:
    """Plan of one bucket.

    Attributes:
        layers: quantized layers.
        scales, words: number of both in all layers.
        plain: ranges of the buffer that are not quantized, ascending and not empty.
    """

    def __init__(self, settings, layers, codec):
        """Make a plan.

        Args:
            settings: a `Settings`.
            layers: parameter, name or None, and range of the buffer of each layer.
            codec: makes a codec for a number of values and bits.
        """
        self.layers, self.plain = [], []
        self.scales = self.words = 0
        for key, name, place in layers:
            numel, bits = settings.quantized(name, place.stop - place.start)
            if numel:
                self._quantize(key, codec(numel, bits), slice(place.start, place.start + numel))
            if place.start + numel < place.stop:
                self._leave(slice(place.start + numel, place.stop))

    def _quantize(self, key, codec, values):
        scales = slice(self.scales, self.scales + codec.scales)
        words = slice(self.words, self.words + codec.words)
        self.scales, self.words = scales.stop, words.stop
        self.layers.append(Layer(key, codec, values, scales, words))

    def _leave(self, place):
        if self.plain and self.plain[-1].stop == place.start:
            place = slice(self.plain.pop().start, place.stop)
        self.plain.append(place)
