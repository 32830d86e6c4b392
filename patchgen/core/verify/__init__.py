"""Verification of a torch: its import, its flags, and its sums."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.core.verify import expected as expecting
from patchgen.core.verify import importing, summing, wheels
from patchgen.core.verify.expected import Expected
from patchgen.core.verify.subject import LIMIT, Subject
from patchgen.errors import OptionsError
from patchgen.system import files, interpreter
from patchgen.system.checks import Check

_LOGGER = logging.getLogger(__name__)

__all__ = ["LIMIT", "Expected", "VerifyRequest", "verify"]


@dataclass(frozen=True)
class VerifyRequest:
    """Torch to verify."""

    target: str
    """Interpreter that imports it, or a wheel under its original name."""
    environ: Mapping[str, str]
    """Environment of the user."""
    python: str | None = None
    """Interpreter with a wheel's requirements; None: the one on PATH that fits its tag."""
    expected: Expected | None = None
    """None: the version and flags that the wheel's name or the torch's version tells."""
    configs: Sequence[str] = ()
    """The switchml.cfg of each rank; empty: two ranks with their own."""
    limit: float = LIMIT
    """Seconds for each process."""

    @property
    def is_wheel(self) -> bool:
        """Whether the target is a wheel, by its name."""
        return self.target.endswith(".whl")


def verify(request: VerifyRequest) -> list[Check]:
    """Import a torch, and sum with each variant of SwitchML in it. Unpacks a wheel for that.

    Returns:
        The checks, up to the first failure without which the rest makes no sense.

    Raises:
        OptionsError: there is no such interpreter or configuration, or the wheel's name or the
            interpreter does not fit.
        ToolError: a program cannot be started.
        FileError: the temporary directory cannot be written, or the wheel cannot be read.
    """
    for path in request.configs:
        if not os.path.isfile(path) or not os.access(path, os.R_OK):
            raise OptionsError(f"{path}: cannot be read; give the switchml.cfg of each rank")
    expected, program, path = request.expected, request.target, request.target
    if request.is_wheel:
        name = expecting.read_wheel_name(path)
        expected = expected or name.expected
        program = wheels.find_interpreter(name, path, request.python, request.environ)
    program, unpacked, checks = interpreter.locate(program), None, []
    with files.scratch("verify") as directory:
        if request.is_wheel:
            _LOGGER.info("unpacking %s", os.path.basename(path))
            unpacked = os.path.join(directory, "wheel")
            os.mkdir(unpacked)
            checks = [wheels.unpack(path, unpacked)]
            if not checks[0].ok:
                return checks
        subject = Subject(program, unpacked, directory, request.limit, request.environ)
        return [*checks, *_verify(subject, expected, request.configs)]


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
        checks += [replace(check, name=label + check.name) for check in found]
    return checks
