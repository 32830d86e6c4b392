"""Graft, made again from its record."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.core.wheel.rebuild.needs import Need, Rebuildable, need_compiler, need_library
from patchgen.extras.install import graft, provenance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.core.wheel.rebuild import Means, Record


def read(record: Record, means: Means) -> Rebuildable:
    """Reads what `graft build` gets from the command line.

    Raises:
        OptionsError: the record has a value that cannot be used.
    """
    options, environ = record.options(), means.make_environ(record)
    commit, name = record.text("request.pin.commit"), record.provenance.subjects[0].name

    def find_pin() -> Mapping[str, str]:
        return {"commit": means.find_pin(commit).commit}

    def build(directory: str, cache: str) -> str:
        output = os.path.join(directory, name)
        request = graft.GraftRequest(
            options,
            provenance.probe(record, means),
            graft.GraftOrigin(cache, means.places),
            environ,
            source=means.source,
            cuda_home=means.environ.get("CUDA_HOME"),
            known=(means.find_pin(commit),),
        )  # fmt: skip
        graft.build(request, output)
        return output

    return Rebuildable(
        (
            need_compiler(record, environ),
            Need("pin", {"commit": commit}, find_pin),
            provenance.need_torch(record, means),
            need_library(record, means),
        ),
        build,
    )
