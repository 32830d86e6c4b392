"""Client library in a SWITCHML_HOME: its files, and the flags it was built with.

switchml.cmake looks for the same symbols when PyTorch is configured.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

from patchgen.core.library.homes import ARCHIVE, MODULE
from patchgen.errors import TreeError
from patchgen.options import BACKENDS, DUMMY, FLAGS
from patchgen.system import paths

if TYPE_CHECKING:
    import mmap

    Data = Union[bytes, mmap.mmap]

_ENTRY = b"8switchml7Context11GetInstance"  # switchml::Context::GetInstance()
_MAGIC, _THIN = b"!<arch>\n", b"!<thin>\n"
_HEADER = 60  # bytes
_BACKENDS = {flag.name: flag.mark.encode() for flag in (*BACKENDS, DUMMY)}
_CARDS = tuple(flag.field for flag in FLAGS if flag.cards)
_FLAGS = re.compile(rb"CXXFLAGS=([^\0\n]*) GIT_REMOTE=")  # in the library's VERSION_INFO
_LINKS = re.compile(r"^with_(\S+)=(\S*) (.*)$", re.MULTILINE)
_MARK = re.compile(
    rb"switchml-patch-client: commit=([0-9a-f]{40}) flags=([A-Z0-9,]+) fixes=(-|[a-z0-9,-]+)\0"
)


class ArchiveError(TreeError):
    """Archive that is no client library. `reason` is the message without the path."""


@dataclass(frozen=True)
class Mark:
    """Mark that `client build` writes into its archives."""

    commit: str
    """Commit of SwitchML's source, 40 hexadecimal digits."""
    flags: tuple[str, ...]
    """Flags that were set, of `options.FLAGS`, DUMMY and TIMEOUTS."""
    fixes: tuple[str, ...]


@dataclass(frozen=True)
class Archive:
    """How the archive of a client library was built."""

    backends: tuple[str, ...]
    """Backends compiled in, of `options.BACKENDS` and DUMMY."""
    timeouts: bool
    cxx11_abi: bool
    debug: bool | None = None
    """Whether it was built without optimization; None if unknown."""
    simulator: bool = False
    mark: Mark | None = None
    """None if `client build` did not make the archive."""

    @property
    def about(self) -> str:
        """Description for messages."""
        if self.simulator:
            return "the simulator, which stands in for every backend"
        words = ["built with", ", ".join(self.backends) or "no backend"]
        words += [] if self.timeouts else ["(TIMEOUTS=0: lost packets are not sent again)"]
        words += ["DEBUG=1"] if self.debug else []
        words += [] if self.cxx11_abi else ["(C++ ABI from before C++11)"]
        if self.mark:
            words.append(f"from {self.mark.commit[:7]} with {len(self.mark.fixes)} fixes")
        return " ".join(words)


def path(home: str) -> str:
    """Return the path of the archive in a SWITCHML_HOME, as `os` takes it."""
    return paths.native(os.path.join(home, ARCHIVE))


def read(home: str) -> Archive:
    """Examine the archive and the headers of a SWITCHML_HOME.

    Raises:
        ArchiveError: it is no client library.
        OSError: the archive cannot be read.
    """
    data = _open(os.path.join(home, ARCHIVE))
    simulator = False
    with contextlib.suppress(FileNotFoundError):
        header = os.path.join(home, "include/switchml/common.h")
        with open(paths.encode(header), "rb") as file:
            simulator = b"define SWITCHML_SIMULATOR" in file.read()
    try:
        return examine(data, simulator=simulator)
    except ArchiveError as error:
        name = paths.printable(os.path.join(home, ARCHIVE))
        raise ArchiveError(f"{name}: {error}", reason=error.reason) from error


def _open(name: str) -> Data:
    with open(paths.encode(name), "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        import mmap  # not needed for most commands

        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def examine(data: Data, *, simulator: bool = False) -> Archive:
    """Find out how an archive was built.

    Raises:
        ArchiveError: it is no client library.
    """
    _check_whole(data)
    if data.find(_ENTRY) < 0:
        raise ArchiveError("does not define switchml::Context::GetInstance()")
    flags = _FLAGS.search(data)
    return Archive(
        backends=tuple(name for name, mark in _BACKENDS.items() if data.find(mark) >= 0),
        timeouts=data.find(b"general.timeout_threshold") >= 0,
        cxx11_abi=data.find(b"LoadFromFileENSt7__cxx11") >= 0,
        debug=b"-DDEBUG" in flags[1].split() if flags else None,
        simulator=simulator,
        mark=_mark(data),
    )


def _mark(data: Data) -> Mark | None:
    found = _MARK.search(data)
    if found is None:
        return None
    commit, flags, fixes = (part.decode("ascii") for part in found.groups())
    return Mark(commit, tuple(flags.split(",")), () if fixes == "-" else tuple(fixes.split(",")))


def _check_whole(data: Data) -> None:
    if not len(data):
        raise ArchiveError("is empty")
    if data[: len(_THIN)] == _THIN:
        raise ArchiveError("is a thin archive, whose objects are elsewhere")
    if data[: len(_MAGIC)] != _MAGIC:
        raise ArchiveError("is not an archive")
    offset = len(_MAGIC)
    if offset == len(data):
        raise ArchiveError("holds no objects")
    while offset < len(data):
        header = data[offset : offset + _HEADER]
        size = header[48:58].strip()
        if header[58:] != b"`\n" or not size.isdigit():
            raise ArchiveError("is damaged or cut short")
        offset += _HEADER + int(size)
        if offset > len(data):
            raise ArchiveError("is damaged or cut short")
        offset += offset % 2


def read_links(home: str) -> tuple[str, ...] | None:
    """Return the libraries that a SWITCHML_HOME links with: names, versions, directories.

    None if `client build` did not make it, since only its module lists them.

    Raises:
        OSError: the module cannot be read.
    """
    try:
        with open(paths.encode(os.path.join(home, MODULE)), encoding="utf-8") as file:
            return find_links(file.read())
    except FileNotFoundError:
        return None


def find_links(module: str) -> tuple[str, ...]:
    """Return the libraries that the text of a pkg-config module lists."""
    found = _LINKS.findall(module)
    return tuple(f"{' '.join(filter(None, about))} ({place})" for *about, place in found)


def read_drivers(home: str) -> tuple[str, ...]:
    """Return the drivers for Mellanox cards in a DPDK_HOME; libdpdk.a may be a linker script.

    Its libdpdk.a may be a linker script.

    Raises:
        OSError: it cannot be read.
    """
    data = _open(os.path.join(home, "lib/libdpdk.a"))
    return tuple(name for name in _CARDS if data.find(name.encode()) >= 0)
