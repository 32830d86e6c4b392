"""Settings of sums in fewer bits, the same on all ranks.

Knows nothing of torch.
"""

import fnmatch
import json
import numbers
import zlib

MOST_BITS = 8
WHOLE = 32  # bits of a layer that is not quantized
MOST_RANKS = 1 << 16


def integer(name, value, least, most=1 << 31):
    """The value, if it is an integer between two ends.

    Raises:
        ValueError: it is not.
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise ValueError(f"{name}={value!r}: give an integer from {least} to {most}")
    return int(value)


def switch(name, value):
    """The value, if it is a bool.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: give True or False")
    return value


def bits_of(value, name="bits"):
    """The value, if it is a number of bits.

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, numbers.Integral) and value == WHOLE:
        return WHOLE
    try:
        return integer(name, value, 1, MOST_BITS)
    except ValueError as error:
        raise ValueError(f"{error}, or {WHOLE} for no quantization") from None


class Settings:
    """Bits of the layers, and how they are rounded.

    Attributes:
        rules: pairs of a pattern of names and bits; the last one that matches a layer counts.
    """

    def __init__(
        self, bits, bucket_size, layer_min_size, stochastic, error_feedback, skip_incomplete, seed
    ):
        self.bits = bits_of(bits)
        self.bucket_size = integer("bucket_size", bucket_size, 1)
        self.layer_min_size = integer("layer_min_size", layer_min_size, 0)
        self.stochastic = switch("stochastic", stochastic)
        self.error_feedback = switch("error_feedback", error_feedback)
        self.skip_incomplete = switch("skip_incomplete", skip_incomplete)
        self.seed = integer("seed", seed, 0, (1 << 63) - 1)
        self.rules = []

    def add(self, pattern, bits):
        """Gives the layers whose name matches a pattern so many bits."""
        if not isinstance(pattern, str):
            raise ValueError(f"{pattern!r}: give the name of a layer, or a pattern as 'norm*'")
        self.rules.append((pattern, bits_of(bits)))

    def layer_bits(self, name):
        """Bits of a layer by its name; None is a layer without a name."""
        found = self.bits
        for pattern, bits in self.rules:
            if name is not None and fnmatch.fnmatchcase(name, pattern):
                found = bits
        return found

    def quantized(self, name, numel):
        """Number of a layer's first values that are sent in fewer bits, and their bits.

        Returns:
            The number of values and the bits; 0 values for a layer that stays as it is.
        """
        bits = self.layer_bits(name)
        if bits == WHOLE or numel < self.layer_min_size:
            return 0, WHOLE
        return numel - (numel % self.bucket_size if self.skip_incomplete else 0), bits

    def text(self):
        """Settings as text, for a comparison between ranks."""
        return json.dumps(vars(self), sort_keys=True)

    def digest(self):
        """Checksum of the text: an int32 that is not negative."""
        return zlib.crc32(self.text().encode()) >> 1


def difference(texts):
    """Differences between the ranks' settings, in words; None where there are none.

    Args:
        texts: of all ranks, in their order.
    """
    known = [json.loads(text) for text in texts]
    for name in sorted({name for one in known for name in one}):
        values = [one.get(name) for one in known]
        for rank, value in enumerate(values):
            if value != values[0]:
                return f"{name} is {values[0]!r} on rank 0 and {value!r} on rank {rank}"
    return None
