"""Interpreter and files of a wheel under test; each file is compared with its hash."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping

from patchgen.core.verify.expected import WheelName
from patchgen.errors import CheckError, OptionsError
from patchgen.system import interpreter, paths
from patchgen.system.checks import Check
from patchgen.system.wheel import Wheel, reading

NAME = "contents of the wheel"


def find_interpreter(
    wheel: WheelName, path: str, given: str | None, environ: Mapping[str, str]
) -> str:
    """Return the interpreter for a wheel: the given one, or one on PATH by its tag.

    Raises:
        OptionsError: no interpreter is found, or the given one does not fit.
        ToolError: the given program is no interpreter.
    """
    machine = platform.machine()
    if not any(re.fullmatch(rf"(any|(many)?linux\w*_{machine})", tag) for tag in wheel.platforms):
        raise OptionsError(
            f"{path}: is for {'.'.join(wheel.platforms)}, this is Linux on {machine}"
        )
    if given is None:
        names = [f"python{'.'.join(_version(tag))}" for tag in wheel.pythons]
        for name in names:
            if shutil.which(name):
                return name
        if f"python{sys.version_info[0]}.{sys.version_info[1]}" in names:
            return sys.executable
        raise OptionsError(
            f"{path}: is for {' or '.join(names)}, which is not on PATH; give --python PYTHON"
        )
    found = interpreter.ask(interpreter.locate(given), environ)
    version = tuple(found.version.split(".")[:2])
    fits = [_version(tag) in (("3",), version) for tag in wheel.pythons]
    if found.implementation != "cpython" or not any(fits):
        raise OptionsError(
            f"{given}: is {found.implementation} {'.'.join(version)}, the wheel is for "
            f"{'.'.join(wheel.pythons)}; give an interpreter of that version"
        )
    return given


def unpack(path: str, directory: str) -> Check:
    """Unpack the files in the wheel's RECORD, and compare each with its hash.

    Raises:
        FileError: the wheel cannot be read, or the directory cannot be written.
    """
    try:
        with reading(path, CheckError) as wheel:
            for name in wheel.names:
                _extract(wheel, name, directory)
            count = len(wheel.names)
    except CheckError as error:
        return Check(NAME, (f"{error}; the file is damaged: copy or build it again",))
    return Check(NAME, (), f"{count} files, as recorded")


def _version(tag: str) -> tuple[str, ...]:
    """Return the version in a tag: 3 and 9 for `cp39`, 3 for `py3`."""
    found = re.fullmatch(r"(?:cp|py)(\d)(\d*)", tag)
    return () if found is None else tuple(filter(None, found.groups()))


def _extract(wheel: Wheel, name: str, directory: str) -> None:
    target = os.path.join(os.fsencode(directory), *map(paths.encode, name.split("/")))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "xb") as file:
        wheel.copy(name, file)
    if wheel.executable(name):
        os.chmod(target, 0o755)  # noqa: S103  # the directory is private
