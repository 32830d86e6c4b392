"""File names as text, the same text in every locale.

A POSIX path is bytes. Here it is held as their UTF-8 decoding with surrogate escapes, whatever the
locale's own encoding is, so that a rendered file does not depend on the locale.
"""

from __future__ import annotations

import os


def from_native(path: str) -> str:
    """Turns a `str` of `sys.argv` or `os.environ` into a path of ours."""
    return decode(os.fsencode(path))


def native(text: str) -> str:
    """Inverse of `from_native`: the path as `os` and programs take it."""
    return os.fsdecode(encode(text))


def encode(text: str) -> bytes:
    """Bytes of a path, which every function of `os` takes."""
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    """Inverse of `encode`, for any bytes."""
    return data.decode("utf-8", "surrogateescape")


def printable(text: str) -> str:
    r"""Path for people: bytes that are not UTF-8 and control characters as \x escapes."""
    shown = encode(text).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def describe(path: str) -> str:
    """Path as `os` takes it, for people."""
    return printable(from_native(path))
