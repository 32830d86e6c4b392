"""CMake modules of this room, for projects that are generated."""

from __future__ import annotations

from importlib import resources

PACKAGES = "packages.cmake"
REPRODUCIBLE = "reproducible.cmake"


def read_module(name: str) -> str:
    """Reads a module."""
    return resources.files("patchgen.system.native").joinpath(name).read_text(encoding="utf-8")
