"""The sections of an ELF file, to say which of them differ. 64 bits, little-endian: x86-64, arm64.

Layout: System V ABI, chapters 4 "Object Files" and "Sections".
"""

from __future__ import annotations

import hashlib
import struct
from typing import IO, NamedTuple

MAGIC = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<16x2H I 3Q I 6H")
_SECTION = struct.Struct("<2I 4Q 2I 2Q")
_NOBITS = 8  # a section without bytes in the file
_BLOCK = 1 << 20  # bytes


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


def sections(file: IO[bytes]) -> dict[str, str]:
    """The SHA-256 of every section, by name; empty where the file is no sound ELF file.

    Args:
        file: can be sought in.
    """
    header = file.read(_HEADER.size)
    if not header.startswith(MAGIC) or len(header) < _HEADER.size:
        return {}
    fields = _HEADER.unpack(header)
    offset, size, count, names = fields[5], fields[10], fields[11], fields[12]
    file.seek(offset)
    table = file.read(size * count)
    if size != _SECTION.size or len(table) != size * count or names >= count:
        return {}
    found = [_Section(*row) for row in _SECTION.iter_unpack(table)]
    file.seek(found[names].offset)
    text = file.read(found[names].size)
    digests: dict[str, str] = {}
    for section in sorted(found, key=lambda section: section.offset):
        name = text[section.name : max(text.find(b"\0", section.name), section.name)].decode(
            "ascii", "backslashreplace"
        )
        if section.kind != _NOBITS and name:
            previous = digests.get(name, "")  # a name may come again
            digests[name] = _digest(file, section, previous)
    return digests


def _digest(file: IO[bytes], section: _Section, previous: str) -> str:
    digest = hashlib.sha256(previous.encode())
    file.seek(section.offset)
    left = section.size
    while left and (block := file.read(min(left, _BLOCK))):
        digest.update(block)
        left -= len(block)
    return digest.hexdigest()
