"""Rebuild of a client library from its provenance."""

from __future__ import annotations

import os
from collections.abc import Mapping

from patchgen.core.library import homes
from patchgen.core.wheel.rebuild import RebuildRequest, RecordedBuild, requirements
from patchgen.core.wheel.rebuild.requirements import Rebuildable, Requirement
from patchgen.errors import OptionsError
from patchgen.extras.client import building, checkout, fixes
from patchgen.system import paths


def read_client(original: RecordedBuild, request: RebuildRequest) -> Rebuildable:
    """Return what a rebuild of a client library requires, and a function that builds it.

    Raises:
        OptionsError: the provenance has a value that cannot be used.
    """
    recorded, named = {*original.texts("request.fixes")}, original.pairs("request.homes")
    options, environ = original.options(), request.make_environ(original)
    known, abi = fixes.read_shipped(), original.provenance.request.get("cxx11_abi")
    wanted = building.ClientRequest(
        options.flags,
        fixes.choose([one.id for one in known if one.id not in recorded], known),
        dpdk_home=named.get("DPDK_HOME", ""),
        grpc_home=named.get("GRPC_HOME", ""),
        cxx11_abi=None if abi is None else original.take("request.cxx11_abi", bool),
        commit=original.provenance.find_digest(checkout.NAME) or fixes.COMMIT,
    )

    def find_fixes() -> Mapping[str, str]:
        unknown = sorted(recorded - {one.id for one in known})
        if unknown:
            raise OptionsError(
                f"this switchml-patch has no {', '.join(unknown)}; install the recorded one"
            )
        return {}

    def build(directory: str, _: str) -> str:
        origin = checkout.CommitOrigin(request.cache, request.remotes, commit=wanted.commit)
        sources = checkout.read_sources(origin)
        building.install(wanted, sources, paths.from_native(directory), environ)
        return os.path.join(directory, homes.ARCHIVE)

    return Rebuildable(
        (requirements.compiler(original, environ), Requirement("fixes", {}, find_fixes)), build
    )
