"""Recipes for building a pinned PyTorch: versions, variables, disk and memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from patchgen.core.patch.pins import Pin

EXIT = "python's exit"
"""Key of the Pythons under which a process that has trained exits without a crash."""
BLAS = "blas"
"""Key of releases that need BLAS and LAPACK; its specifier is empty."""

PATH_RULE = "PyTorch's build takes only letters, digits and / . , + @ - _ in its path"
"""Reason for refusing a directory whose name `takes` does not accept."""

_VERSION = re.compile(r"\d+(?:\.\d+)+")


class Recipe(NamedTuple):
    """What a release of PyTorch needs to be built; empty for an unknown one."""

    limits: Mapping[str, str] = {}
    """PEP 440 specifiers by program or package; an empty one allows any version."""
    variables: Mapping[str, str] = {}
    """Environment variables for setup.py, unless the user sets them."""
    disk: float = 0
    """GiB for the source, the objects and the wheel, without the environment."""
    memory: float = 0
    """GiB for each compiler process."""
    domain_libraries: Mapping[str, str] = {}
    """Versions of PyTorch's domain libraries of the same release, such as torchvision."""


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


def read(pin: Pin) -> Recipe:
    """Return the recipe of a pin."""
    return Recipe(**pin.recipe)


def limit(pin: Pin) -> Limits:
    """Return the versions with which the release of a pin builds."""
    return Limits(f"PyTorch {pin.version}", read(pin).limits)


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


def takes(path: str) -> bool:
    """Return whether any release of PyTorch can be built under this path."""
    return re.fullmatch(r"[\w/.,+@-]+", path, re.ASCII) is not None
