"""Settings of `quantized_hook`, which must be the same on all ranks. Does not import torch."""

import fnmatch
import json
import numbers
import zlib

MOST_BITS = 8
UNQUANTIZED_BITS = 32
"""Bits of a layer that is not quantized."""
MOST_RANKS = 1 << 16


def check_integer(name, value, least, most=1 << 31):
    """Return the value as an int.

    Raises:
        ValueError: it is not an integer between `least` and `most`.
    """
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not least <= value <= most:
        raise ValueError(f"{name}={value!r}: give an integer from {least} to {most}")
    return int(value)


def check_bool(name, value):
    """Return the value.

    Raises:
        ValueError: it is not a bool.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: give True or False")
    return value


def check_bits(value, name="bits"):
    """Return the value as a number of bits.

    Raises:
        ValueError: it is not a number of bits.
    """
    if isinstance(value, numbers.Integral) and value == UNQUANTIZED_BITS:
        return UNQUANTIZED_BITS
    try:
        return check_integer(name, value, 1, MOST_BITS)
    except ValueError as error:
        raise ValueError(f"{error}, or {UNQUANTIZED_BITS} for no quantization") from None


class Settings:
    """Bits of the layers, and their rounding.

    Attributes:
        rules: pairs of a name pattern and bits; the last one that matches a layer counts.
    """

    def __init__(
        self, bits, bucket_size, layer_min_size, stochastic, error_feedback, skip_incomplete, seed
    ):
        self.bits = check_bits(bits)
        self.bucket_size = check_integer("bucket_size", bucket_size, 1)
        self.layer_min_size = check_integer("layer_min_size", layer_min_size, 0)
        self.stochastic = check_bool("stochastic", stochastic)
        self.error_feedback = check_bool("error_feedback", error_feedback)
        self.skip_incomplete = check_bool("skip_incomplete", skip_incomplete)
        self.seed = check_integer("seed", seed, 0, (1 << 63) - 1)
        self.rules = []

    def add_rule(self, pattern, bits):
        """Set the bits of the layers whose names match a pattern."""
        if not isinstance(pattern, str):
            raise ValueError(f"{pattern!r}: give the name of a layer, or a pattern as 'norm*'")
        self.rules.append((pattern, check_bits(bits)))

    def layer_bits(self, name):
        """Return the bits of a layer; `name` is None for a layer without a name."""
        found = self.bits
        for pattern, bits in self.rules:
            if name is not None and fnmatch.fnmatchcase(name, pattern):
                found = bits
        return found

    def quantized(self, name, numel):
        """Return how many of a layer's first values are quantized, and to how many bits.

        Returns:
            The number of values and the bits; 0 values for a layer that is not quantized.
        """
        bits = self.layer_bits(name)
        if bits == UNQUANTIZED_BITS or numel < self.layer_min_size:
            return 0, UNQUANTIZED_BITS
        return numel - (numel % self.bucket_size if self.skip_incomplete else 0), bits

    def text(self):
        """Return the settings as text, to compare them between ranks."""
        return json.dumps(vars(self), sort_keys=True)

    def digest(self):
        """Return a checksum of the text: an int32 that is not negative."""
        return zlib.crc32(self.text().encode()) >> 1


def difference(texts):
    """Describe a difference between the ranks' settings; None if they are the same.

    Args:
        texts: settings of all ranks as text, in the order of the ranks.
    """
    known = [json.loads(text) for text in texts]
    for name in sorted({name for one in known for name in one}):
        values = [one.get(name) for one in known]
        for rank, value in enumerate(values):
            if value != values[0]:
                return f"{name} is {values[0]!r} on rank 0 and {value!r} on rank {rank}"
    return None
