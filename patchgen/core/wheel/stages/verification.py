"""Verification that the wheel imports and sums."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from patchgen.core.wheel.check.accepted import CRASH
from patchgen.core.wheel.place import HOST
from patchgen.core.wheel.values import Verified
from patchgen.errors import CheckError
from patchgen.system import checks
from patchgen.system.files import digest, sha256

if TYPE_CHECKING:
    from patchgen.core.wheel.session import Session


def _digest_inputs(session: Session) -> str:
    request = session.request
    return digest(
        {
            "wheel": asdict(session.wheel),
            "expected": [
                request.version,
                list(request.options.flags),
                *([CRASH] if CRASH in request.accepted else []),
            ],
            "python": session.env.toolchain.identity,
            "configs": [sha256(path) for path in request.configs],
        }
    )


def look(session: Session) -> Verified | None:
    """Reads the recorded result for this wheel, where there is one."""
    return session.journal.get(Verified, _digest_inputs(session))


def make(session: Session) -> Verified:
    """Imports the wheel and sums with it.

    Raises:
        CheckError: something does not hold.
    """
    from patchgen.core.verify import Expected, verify_wheel

    request = session.request
    inputs = _digest_inputs(session)
    session.journal.drop(Verified)
    path = os.path.join(request.wheels, session.wheel.name)
    expected = Expected(
        version=request.version,
        flags=request.options.flags,
        may_crash=CRASH in request.accepted,
    )
    # The switch of a configuration is elsewhere; else ranks need nobody but themselves.
    network = HOST if request.configs else session.place.leave_network()
    with session.place.hide():
        found = verify_wheel(path, request.interpreter, expected, request.configs, request.environ)
    if not checks.hold(found):
        wrong = [
            f"{check.name}: {'; '.join(check.problems)}"
            for check in found
            if check.required and not check.ok
        ]
        raise CheckError("\n".join([f"{path} does not pass its verification", *wrong]))
    verified = Verified(tuple(check.name for check in found), network)
    session.journal.put(verified, inputs)
    return verified
