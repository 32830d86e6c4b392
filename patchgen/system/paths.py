"""Paths as text, independent of the locale.

A POSIX path is bytes. Here it is decoded as UTF-8 with surrogate escapes, whatever the locale's
encoding, so that rendered files do not depend on the locale.
"""

from __future__ import annotations

import os

from patchgen import errors


def from_native(path: str) -> str:
    """Convert a `str` of `sys.argv` or `os.environ` to a locale-independent path."""
    return decode(os.fsencode(path))


def native(text: str) -> str:
    """Invert `from_native`: return the path as `os` and programs take it."""
    return os.fsdecode(encode(text))


def encode(text: str) -> bytes:
    """Return the bytes of a path, which every function of `os` takes."""
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    """Invert `encode`, for any bytes."""
    return data.decode("utf-8", "surrogateescape")


def printable(text: str) -> str:
    r"""Return a path for messages, with invalid and control characters as \x escapes."""
    return errors.printable(encode(text))


def describe(path: str) -> str:
    """Return a path for messages, given as `os` takes it."""
    return printable(from_native(path))
