"""Provenance of a wheel, in a file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from patchgen.core.library import origin
from patchgen.core.source.addresses import SOURCE
from patchgen.core.wheel.values import WheelInputs
from patchgen.system import paths, statement
from patchgen.system.files import Artifact
from patchgen.system.statement import Provenance

KIND = "wheel"
PATCH = "switchml_pytorch.patch"
LOCK = "conda-lock.yml"


def describe(
    inputs: WheelInputs, wheel: Artifact | None = None, network: Mapping[str, str] | None = None
) -> Provenance:
    """Return the provenance of a wheel; equal values give equal provenances.

    Args:
        inputs: what it is made from.
        wheel: the wheel; None where it is not packed yet.
        network: network access by stage, loopback or host; None before any stage.
    """
    return Provenance(
        kind=KIND,
        subjects=(wheel,) if wheel else (),
        request=_request(inputs),
        resolved=_resolved(inputs, network or {}),
        materials=tuple(_materials(inputs)),
    )


def _request(inputs: WheelInputs) -> dict[str, object]:
    request = inputs.request
    listed = {"accepted": request.accepted, "without": inputs.source.left_out}
    return {
        "pin": {"name": request.pin.name, "commit": request.pin.commit},
        **origin.describe_options(request.options),
        "variables": dict(inputs.env.variables),
        **{name: list(values) for name, values in listed.items() if values},
    }


def _resolved(inputs: WheelInputs, network: Mapping[str, str]) -> dict[str, object]:
    """Return values that followed from the user's choices on this machine."""
    request, sandbox = inputs.request, inputs.sandbox
    return {
        "version": request.version,
        "toolchain": asdict(inputs.env.toolchain),
        "SOURCE_DATE_EPOCH": inputs.source.epoch,
        "buildPath": paths.printable(sandbox.path(request.source)),
        "isolation": {
            "namespaces": sandbox.reason or "mount, network",
            "network": dict(network),
        },
        **origin.describe_home(request.options.switchml_home),
    }


def _materials(inputs: WheelInputs) -> list[dict[str, object]]:
    """Return the inputs of the wheel, as ResourceDescriptors."""
    source, patched = inputs.source, inputs.patched
    found = [
        statement.describe_commit(paths.printable(path) or SOURCE, source.addresses[path], commit)
        for path, commit in sorted(source.commits.items())
    ]
    found.append(statement.describe_file(PATCH, patched.patch.sha256))
    found.extend(map(dict, patched.client))
    if inputs.env.lock_file is not None:
        found.append(statement.describe_file(LOCK, inputs.env.lock_file))
    return found
