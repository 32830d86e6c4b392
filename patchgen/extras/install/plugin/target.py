"""Torch that a plugin is for: what its compiler and its wheel need to know."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.core.torch import Torch, headers
from patchgen.errors import ToolError, file_errors
from patchgen.extras.install.plugin import virtuals
from patchgen.extras.install.plugin.virtuals import Method

_OLDEST = (1, 13)  # before, Work was nested in ProcessGroup
_COMPILERS = ("/usr/local/include", "/usr/include")  # default directories of compilers
_OLDEST_STANDARD = 17  # needed by the plugin's own files


@dataclass(frozen=True)
class PluginTarget:
    """Torch that a plugin is for, and how to compile for it."""

    torch: Torch
    base: str
    """Base class of process groups: Backend, or ProcessGroup before torch 2."""
    methods: tuple[Method, ...]
    standard: int
    """C++ standard that the headers of this torch need, such as 17."""
    definitions: tuple[str, ...]
    suffix: str
    tag: str
    flight_recorder: bool = False
    """Whether a library can reach the flight recorder in which Gloo records its calls."""
    sequence: bool = False
    """Whether the sequence numbers of a Gloo group have to be set."""
    entry_points: tuple[str, ...] = ()
    """Groups of entry points in which torch looks for backends."""

    @property
    def release(self) -> str:
        """Version without its local part."""
        return self.torch.version.partition("+")[0]

    @property
    def requirement(self) -> str:
        """Requirement of the torch, with the local version if pip knows the torch by it."""
        known = self.torch.package
        own = known.partition("+")[0] == self.release
        return f"torch==={known}" if own else f"torch=={self.release}"


def inspect(torch: Torch, environ: Mapping[str, str]) -> PluginTarget:
    """Inspect the headers of a torch, and what its interpreter reported.

    `environ` has the compiler's variables.

    Raises:
        ToolError: a header is missing or another torch's, or the torch is too old.
        FileError: torch/utils/cpp_extension.py cannot be read.
    """
    major, minor = _read_release(torch.version)
    if (major, minor) < _OLDEST:
        raise ToolError(
            f"torch {torch.version} of {torch.python}: the plugin is for PyTorch 1.13 and newer; "
            "patch or graft this one"
        )
    base = "Backend" if major > 1 else "ProcessGroup"
    header = torch.require_header(f"torch/csrc/distributed/c10d/{base}.hpp", environ)
    distributed = os.path.dirname(header)
    everywhere = [*torch.include_dirs, *_COMPILERS]
    packages = "Debian: pybind11-dev; conda: pybind11"
    _require("pybind11/pybind11.h", everywhere, "pybind11 is missing", packages)
    python = [torch.python_include]
    _require("Python.h", python, "Python's headers are missing", "Debian: python3-dev")
    platform = torch.platform.replace("-", "_").replace(".", "_")
    return PluginTarget(
        torch=torch,
        base=base,
        methods=tuple(virtuals.read(header, base)),
        standard=_standard(torch),
        definitions=tuple(f'{name}="{value}"' for name, value in torch.pybind11.items()),
        suffix=torch.suffix,
        tag=f"{torch.tag}-{torch.abi_tag}-{platform}",
        flight_recorder=_has(distributed, "FlightRecorder.hpp", "getFlightRecorder("),
        sequence=_has(distributed, "ProcessGroupGloo.hpp", "setSequenceNumberForGroup"),
        entry_points=tuple(_entry_points(torch.root)),
    )


def _read_release(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _require(header: str, directories: Sequence[str], what: str, packages: str) -> None:
    if headers.find(header, directories) is None:
        raise ToolError(f"{what}: no {header} in {', '.join(directories)}; install it ({packages})")


def _has(directory: str, name: str, word: str) -> bool:
    """Return whether a file exists and contains a word."""
    path = os.path.join(directory, name)
    if not os.path.exists(path):
        return False
    with file_errors(), open(path, encoding="utf-8") as file:
        return word in file.read()


def _entry_points(root: str) -> Iterator[str]:
    """Yield the groups that torch reads: at its import, and when a backend is requested."""
    for name, group in (
        ("__init__.py", "torch.backends"),
        ("distributed/distributed_c10d.py", "torch.distributed.backends"),
    ):
        if _has(root, name, f'"{group}"'):
            yield group


def _standard(torch: Torch) -> int:
    """Return the C++ standard that torch compiles its own extensions with."""
    path = os.path.join(torch.root, "utils", "cpp_extension.py")
    with file_errors(), open(path, encoding="utf-8") as file:
        found = re.findall(r"-std=c\+\+(\d\d)\b", file.read())
    return max([_OLDEST_STANDARD, *map(int, found)])
