"""The template filters: any value as one token of the language that it is written in."""

from __future__ import annotations

from patchgen.system import paths

_CMAKE = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "$": "\\$", "@": "\\@", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
)
_CXX = {ord("\\"): "\\\\", ord('"'): '\\"', ord("?"): "\\?"}  # \? keeps trigraphs away


def cmake(value: str) -> str:
    """A quoted argument of CMake."""
    return f'"{value.translate(_CMAKE)}"'


def cxx(value: str) -> str:
    """A string literal of C++, in ASCII: the bytes of the value whatever the execution charset."""
    return '"' + "".join(map(_cxx_byte, paths.encode(value))) + '"'


def _cxx_byte(byte: int) -> str:
    if byte in _CXX:
        return _CXX[byte]
    # Three octal digits: unlike \x, an octal escape cannot swallow the digit that follows it.
    return chr(byte) if ord(" ") <= byte <= ord("~") else f"\\{byte:03o}"


def py(value: object) -> str:
    """A literal of Python, in ASCII."""
    return ascii(value)
