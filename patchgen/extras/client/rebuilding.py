"""Rebuild of a client library from its provenance."""

from __future__ import annotations

import os
from collections.abc import Mapping

from patchgen.core.library import homes
from patchgen.core.wheel.rebuild import Means, Original
from patchgen.core.wheel.rebuild.needs import Need, Rebuildable, need_compiler
from patchgen.errors import OptionsError
from patchgen.extras.client import building, checkout, fixes
from patchgen.system import paths


def read_client(original: Original, means: Means) -> Rebuildable:
    """Return what a rebuild of a client library requires, and a function that builds it.

    Raises:
        OptionsError: the provenance has a value that cannot be used.
    """
    wanted, named = {*original.texts("request.fixes")}, original.pairs("request.homes")
    options, environ = original.options(), means.make_environ(original)
    known = fixes.read_shipped()
    request = building.ClientRequest(
        options.flags,
        fixes.choose([one.id for one in known if one.id not in wanted], known),
        dpdk_home=named.get("DPDK_HOME", ""),
        grpc_home=named.get("GRPC_HOME", ""),
        cxx11_abi=original.choice("request.cxx11_abi"),
        commit=original.provenance.find_digest(checkout.NAME) or fixes.COMMIT,
    )

    def find_fixes() -> Mapping[str, str]:
        unknown = sorted(wanted - {one.id for one in known})
        if unknown:
            raise OptionsError(
                f"this switchml-patch has no {', '.join(unknown)}; install the recorded one"
            )
        return {}

    def build(directory: str, _: str) -> str:
        origin = checkout.CommitOrigin(means.cache, means.places, commit=request.commit)
        sources = checkout.read_sources(origin)
        building.install(request, sources, paths.from_native(directory), environ)
        return os.path.join(directory, homes.ARCHIVE)

    return Rebuildable((need_compiler(original, environ), Need("fixes", {}, find_fixes)), build)
