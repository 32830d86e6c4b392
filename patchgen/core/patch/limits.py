"""Versions: found in what programs say, and compared with the limits of a recipe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

EXIT = "python's exit"
"""Key for releases that crash at the exit of a process under another Python."""
BLAS = "blas"
"""Key for releases that need BLAS and LAPACK."""

_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Limits:
    """Versions that one PyTorch builds with."""

    of: str
    """Name of that PyTorch, for people."""
    specifiers: Mapping[str, str] = field(default_factory=dict)
    """PEP 440 specifiers by program or Python package."""

    def text(self, name: str) -> str:
        """The specifier, or nothing."""
        return self.specifiers.get(name, "")

    def problems(
        self, name: str, version: str, advice: str, limit: str | None = None
    ) -> tuple[str, ...]:
        """Objection to a version: one line, or none.

        Args:
            name: of the program or package, for people.
            version: what it says of itself.
            advice: what to do then.
            limit: whose specifier counts, where it is not called like the program.
        """
        from packaging.specifiers import SpecifierSet  # noqa: PLC0415  # slows `generate` down

        wanted = self.text(limit or name)
        if not wanted or SpecifierSet(wanted).contains(plain(version), prereleases=True):
            return ()
        return (f"{name} {version}: {self.of} builds with {wanted}; {advice}",)


def plain(version: str) -> str:
    """The numbers that a version begins with, as in 1.21.5 of 1:1.21.5-1ubuntu."""
    found = re.match(r"(?:\d+[:!])?(\d+(?:\.\d+)*)", version)
    return found[1] if found else "0"


def first(text: str) -> str | None:
    """The first version in a text: `cmake version 3.25.1` has 3.25.1."""
    found = _VERSION.search(text)
    return found[0] if found else None


def nvcc(text: str) -> str | None:
    """The release of CUDA in the answer to `nvcc --version`."""
    found = re.search(r"\bV(\d[\d.]*)", text)
    return found[1] if found else None
