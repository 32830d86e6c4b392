"""The proof that a wheel sums."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from patchgen import checks
from patchgen.errors import CheckError
from patchgen.system.files import sha256
from patchgen.wheel import packing
from patchgen.wheel.check.accepted import CRASH
from patchgen.wheel.journal import digest
from patchgen.wheel.values import Verified

if TYPE_CHECKING:
    from patchgen.wheel.place import Place
    from patchgen.wheel.values import Environment, Wheel


def _inputs(place: Place, environment: Environment, wheel: Wheel) -> str:
    request = place.request
    return digest(
        {
            "wheel": asdict(wheel),
            "expected": [
                request.version,
                list(request.options.flags),
                *([CRASH] if CRASH in request.accepted else []),
            ],
            "python": environment.toolchain.identity,
            "configs": [sha256(path) for path in request.configs],
        }
    )


def look(place: Place, environment: Environment, wheel: Wheel) -> Verified | None:
    """Recorded result of the verification of this wheel, or None."""
    return place.journal.get(Verified, _inputs(place, environment, wheel))


def make(place: Place, environment: Environment, wheel: Wheel) -> Verified:
    """Imports the wheel and sums with it.

    Raises:
        CheckError: something does not hold.
    """
    from patchgen.ranks import verify

    request = place.request
    inputs = _inputs(place, environment, wheel)
    place.journal.drop(Verified)
    path = packing.path(request, wheel)
    expected = verify.Expected(
        version=request.version,
        flags=request.options.flags,
        may_crash=CRASH in request.accepted,
    )
    found = verify.wheel(path, environment.python, expected, request.configs, request.environ)
    if not checks.hold(found):
        wrong = [
            f"{check.name}: {'; '.join(check.problems)}"
            for check in found
            if check.required and not check.ok
        ]
        raise CheckError("\n".join([f"{path} does not pass its verification", *wrong]))
    verified = Verified(tuple(check.name for check in found))
    place.journal.put(verified, inputs)
    return verified
