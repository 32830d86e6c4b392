"""Stage that verifies that the wheel imports and sums."""

from __future__ import annotations

import os
from dataclasses import asdict

from patchgen.core.wheel.check import CRASH
from patchgen.core.wheel.sandbox import HOST
from patchgen.core.wheel.values import BuildEnvironment, BuiltWheel, Stage, Verified
from patchgen.core.wheel.workspace import Making, Workspace
from patchgen.errors import CheckError
from patchgen.system.checks import find_failed
from patchgen.system.files import digest, sha256


def verify_wheel(
    workspace: Workspace, env: BuildEnvironment, wheel: BuiltWheel
) -> Making[Verified]:
    """Verify the wheel, unless a build has verified it before.

    Raises:
        CheckError: a check failed.
    """
    from patchgen.core import verify

    request = workspace.request
    may_crash = CRASH in request.accepted
    inputs = digest(
        {
            "wheel": asdict(wheel),
            "expected": [
                request.version,
                list(request.options.flags),
                *([CRASH] if may_crash else []),
            ],
            "python": env.toolchain.identity,
            "configs": [sha256(path) for path in request.configs],
        }
    )
    recorded = workspace.journal.get(Verified, inputs)
    if recorded is not None:
        return recorded
    yield Stage.VERIFY
    workspace.journal.drop(Verified)
    path = os.path.join(request.wheels, wheel.name)
    expected = verify.Expected(request.version, request.options.flags, may_crash=may_crash)
    # With configurations of the user, the ranks need the network to their switch.
    network = HOST if request.configs else workspace.sandbox.leave_network()
    workspace.sandbox.hide()
    found = verify.verify(
        verify.VerifyRequest(path, request.environ, request.interpreter, expected, request.configs)
    )
    wrong = [f"{check.name}: {'; '.join(check.problems)}" for check in find_failed(found)]
    if wrong:
        raise CheckError("\n".join([f"{path} does not pass its verification", *wrong]))
    verified = Verified(tuple(check.name for check in found), network)
    workspace.journal.put(verified, inputs)
    return verified
