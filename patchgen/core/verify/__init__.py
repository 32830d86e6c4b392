"""Verification of a torch: its import, its flags, and its sums."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence

from patchgen.core.verify import expected as expecting
from patchgen.core.verify import importing, summing, wheels
from patchgen.core.verify.expected import Expected
from patchgen.core.verify.subject import LIMIT, Subject
from patchgen.errors import OptionsError
from patchgen.system import files, interpreter
from patchgen.system.checks import Check

_LOGGER = logging.getLogger(__name__)

__all__ = ["LIMIT", "Expected", "verify_python", "verify_wheel"]


def verify_python(
    name: str,
    expected: Expected | None,
    configs: Sequence[str],
    environ: Mapping[str, str],
    *,
    limit: float = LIMIT,
) -> list[Check]:
    """Verify the torch that an interpreter imports.

    Args:
        name: path of the interpreter, or its name on PATH.
        expected: expected version and flags; None: the flags that its version names.
        configs: switchml.cfg of each rank; empty: two ranks with their own.
        environ: environment of the user.
        limit: seconds for each process.

    Returns:
        The checks, up to the first failure without which the rest makes no sense.

    Raises:
        OptionsError: there is no such interpreter or configuration.
        ToolError: a program cannot be started.
        FileError: the temporary directory cannot be written.
    """
    _check_configs(configs)
    program = interpreter.locate(name)
    with files.scratch("verify") as directory:
        return _verify(Subject(program, None, directory, limit, environ), expected, configs)


def verify_wheel(  # noqa: PLR0913  # all are independent
    path: str,
    given: str | None,
    expected: Expected | None,
    configs: Sequence[str],
    environ: Mapping[str, str],
    *,
    limit: float = LIMIT,
) -> list[Check]:
    """Verify a wheel, unpacked into a temporary directory and imported from there.

    Args:
        path: wheel of torch, under its original name.
        given: interpreter with torch's requirements; None: the one on PATH that fits the wheel's
            tag.
        expected: expected version and flags; None: those in the wheel's name.
        configs: switchml.cfg of each rank; empty: two ranks with their own.
        environ: environment of the user.
        limit: seconds for each process.

    Raises:
        OptionsError: the wheel's name or the interpreter does not fit.
        ToolError: a program cannot be started.
        FileError: the temporary directory cannot be written, or the wheel cannot be read.
    """
    _check_configs(configs)
    name = expecting.read_wheel_name(path)
    program = interpreter.locate(wheels.find_interpreter(name, path, given, environ))
    with files.scratch("verify") as directory:
        _LOGGER.info("unpacking %s", os.path.basename(path))
        unpacked = os.path.join(directory, "wheel")
        os.mkdir(unpacked)
        contents = wheels.unpack(path, unpacked)
        if not contents.ok:
            return [contents]
        verified = Subject(program, unpacked, directory, limit, environ)
        return [contents, *_verify(verified, expected or name.expected, configs)]


def _verify(verified: Subject, expected: Expected | None, configs: Sequence[str]) -> list[Check]:
    _LOGGER.info("importing torch in %s", verified.interpreter)
    imported = importing.check(verified, expected)
    checks = [*imported.checks]
    for variant, simulated in imported.variants.items():
        found = summing.check(
            verified,
            variant,
            configs,
            simulated=simulated,
            cause=imported.cause,
            may_crash=expected is not None and expected.may_crash,
        )
        label = f"{variant}: " if len(imported.variants) > 1 else ""
        checks += [dataclasses.replace(check, name=label + check.name) for check in found]
    return checks


def _check_configs(configs: Sequence[str]) -> None:
    for path in configs:
        if not os.path.isfile(path) or not os.access(path, os.R_OK):
            raise OptionsError(f"{path}: cannot be read; give the switchml.cfg of each rank")
