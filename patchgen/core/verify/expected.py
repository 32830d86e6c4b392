"""Expected version and flags of a torch: from the build, a wheel's name, or its version."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote

from patchgen.core.patch import version as names
from patchgen.errors import OptionsError

_ESCAPED = re.compile(r"(torch-[^-+_]+)_")


@dataclass(frozen=True)
class Expected:
    """Expected version and flags; None where they are unknown."""

    version: str | None
    flags: tuple[str, ...] | None
    may_crash: bool = False
    """Whether ranks may crash at their exit for a known cause."""


@dataclass(frozen=True)
class WheelName:
    """Parsed file name of a wheel (PyPA, "Binary distribution format")."""

    version: str
    pythons: tuple[str, ...]
    platforms: tuple[str, ...]

    @property
    def expected(self) -> Expected:
        """Expected version, and flags if it is a version of a patched wheel."""
        return Expected(self.version, names.flags_of(self.version))


def read_wheel_name(path: str) -> WheelName:
    """Parse the file name of a wheel of torch; `+` may be escaped as in a URL.

    Raises:
        OptionsError: it is no such name.
    """
    from packaging.utils import parse_wheel_filename  # noqa: PLC0415  # the plugin builds without

    name = _ESCAPED.sub(r"\1+", unquote(os.path.basename(path)), count=1)
    try:
        project, version, _, tags = parse_wheel_filename(name)
    except ValueError:  # no such name, or no version in it
        project = None
    if project != "torch":
        raise OptionsError(
            f"{path}: not the name of a wheel of torch, as torch-1.7.1+switchml-cp39-cp39-"
            "linux_x86_64.whl; give the file as it was built"
        )
    return WheelName(
        str(version),
        tuple(sorted({tag.interpreter for tag in tags})),
        tuple(sorted({tag.platform for tag in tags})),
    )


def normalize_version(version: str) -> str:
    """Return the normal form of a version; file names may separate parts by `_`."""
    public, plus, local = version.partition("+")
    if not plus:
        public, plus, local = version.partition("_")
    return f"{public}{plus and '+'}{re.sub('[-_.]+', '.', local)}".lower()


def problems(expected: Expected, version: str, flags: str) -> tuple[str, ...]:
    """Return the differences from the expected torch, a line each."""
    found = []
    named = expected.version
    if named is not None and normalize_version(named) != normalize_version(version):
        found.append(f"the version is {version}, not {named}")
    if expected.flags is not None and set(expected.flags) != set(flags.split()):
        own, others = describe_flags(flags.split()), describe_flags(expected.flags)
        found.append(f"patched with {own}, not with {others}")
    if found:
        found.append("this torch was built with other flags; build again with these")
    return tuple(found)


def describe_flags(flags: list[str] | tuple[str, ...]) -> str:
    """Return the flags as words of a message."""
    return f"the flags {' '.join(flags)}" if flags else "no flags"
