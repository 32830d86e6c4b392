"""Versions: found in the output of programs, and compared with the limits of a recipe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

EXIT = "python's exit"
"""Key of the Pythons under which a process that has trained exits without a crash."""
BLAS = "blas"
"""Key of releases that need BLAS and LAPACK; its specifier is empty."""

_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Limits:
    """Versions of programs and packages with which a release of PyTorch builds."""

    of: str
    """Name of the release in messages, such as PyTorch 1.7.1."""
    specifiers: Mapping[str, str] = field(default_factory=dict)
    """PEP 440 specifiers by program or Python package."""

    def text(self, name: str) -> str:
        """Return the specifier of a program or package; empty where any version will do."""
        return self.specifiers.get(name, "")

    def problems(
        self, name: str, version: str, advice: str, limit: str | None = None
    ) -> tuple[str, ...]:
        """Return one line if a version is outside the limits, else nothing.

        Args:
            name: program or package, as messages name it.
            version: version that it reports.
            advice: what to do about a wrong version.
            limit: key in `specifiers`, if it is not `name`.
        """
        from packaging.specifiers import SpecifierSet  # noqa: PLC0415  # slows `generate` down

        wanted = self.text(limit or name)
        if not wanted or SpecifierSet(wanted).contains(plain(version), prereleases=True):
            return ()
        return (f"{name} {version}: {self.of} builds with {wanted}; {advice}",)


def plain(version: str) -> str:
    """Return the leading numbers of a version: 1.21.5 for 1:1.21.5-1ubuntu, else 0."""
    found = re.match(r"(?:\d+[:!])?(\d+(?:\.\d+)*)", version)
    return found[1] if found else "0"


def first(text: str) -> str | None:
    """Return the first version in a text: 3.25.1 for `cmake version 3.25.1`."""
    found = _VERSION.search(text)
    return found[0] if found else None


def nvcc(text: str) -> str | None:
    """Return the CUDA release in the output of `nvcc --version`."""
    found = re.search(r"\bV(\d[\d.]*)", text)
    return found[1] if found else None
