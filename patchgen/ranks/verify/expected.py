"""What a torch must be: asked for by the build, said by the name of a wheel, or by its version."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote

from packaging.utils import parse_wheel_filename

from patchgen.errors import OptionsError
from patchgen.patch import version as names

_ESCAPED = re.compile(r"(torch-[^-+_]+)_")


@dataclass(frozen=True)
class Expected:
    """The version and the flags; None where nothing is known about them."""

    version: str | None
    flags: tuple[str, ...] | None
    may_crash: bool = False
    """Whether ranks may crash at their end for a cause that is known."""


@dataclass(frozen=True)
class WheelName:
    """What the file name of a wheel says (PyPA, "Binary distribution format")."""

    version: str
    pythons: tuple[str, ...]
    platforms: tuple[str, ...]

    @property
    def expected(self) -> Expected:
        """The version, and the flags where it is one of ours."""
        return Expected(self.version, names.flags_of(self.version))


def read(path: str) -> WheelName:
    """Reads the file name of a wheel of torch; `+` may be escaped as in a URL.

    Raises:
        OptionsError: it is none.
    """
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


def normal(version: str) -> str:
    """One spelling of a version; file names may have `_` for what separates its parts."""
    public, plus, local = version.partition("+")
    if not plus:
        public, plus, local = version.partition("_")
    return f"{public}{plus and '+'}{re.sub('[-_.]+', '.', local)}".lower()


def problems(expected: Expected, version: str, flags: str) -> tuple[str, ...]:
    """What differs: a line each."""
    found = []
    if expected.version is not None and normal(expected.version) != normal(version):
        found.append(f"the version is {version}, not {expected.version}")
    if expected.flags is not None and set(expected.flags) != set(flags.split()):
        found.append(f"patched with {told(flags.split())}, not with {told(expected.flags)}")
    if found:
        found.append("what was built is not what was asked for; build again with these flags")
    return tuple(found)


def told(flags: list[str] | tuple[str, ...]) -> str:
    """Flags in words."""
    return f"the flags {' '.join(flags)}" if flags else "no flags"
