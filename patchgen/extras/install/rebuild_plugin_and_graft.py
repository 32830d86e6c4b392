"""Rebuild of a plugin or a graft from its provenance."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from patchgen.core.torch import LIBRARIES, Torch, probe_torch
from patchgen.core.wheel.rebuild import RebuildRequest, RecordedBuild, requirements
from patchgen.core.wheel.rebuild.requirements import Rebuildable, Requirement
from patchgen.errors import file_errors
from patchgen.extras.install import graft, plugin, provenance
from patchgen.extras.install.graft.sources import GraftOrigin
from patchgen.extras.install.plugin import bundle

_COMPARED = ("version", "commit", "root", "python_version")
"""Values of a torch that must be the recorded ones, besides its files."""


def read_plugin(original: RecordedBuild, request: RebuildRequest) -> Rebuildable:
    """Return what a rebuild of a plugin requires, and a function that builds it as recorded.

    Raises:
        OptionsError: the provenance has a value that cannot be used.
    """
    options, environ = original.options(), request.make_environ(original)
    bundled = original.take("request.bundle", bool)

    def build(directory: str, cache: str) -> str:
        wanted = plugin.PluginRequest(options, _probe(original, request), cache, environ)
        if bundled:
            return bundle.build(wanted, directory).path
        return plugin.build(wanted, directory)

    return Rebuildable(
        (
            requirements.compiler(original, environ),
            _require_torch(original, request),
            requirements.library(original, request),
        ),
        build,
    )


def read_graft(original: RecordedBuild, request: RebuildRequest) -> Rebuildable:
    """Return what a rebuild of a graft requires, and a function that builds it as recorded.

    Raises:
        OptionsError: the provenance has a value that cannot be used.
    """
    options, environ = original.options(), request.make_environ(original)
    commit, name = original.text("request.pin.commit"), original.provenance.subjects[0].name

    def build(directory: str, cache: str) -> str:
        output = os.path.join(directory, name)
        wanted = graft.GraftRequest(
            options,
            _probe(original, request),
            GraftOrigin(cache, request.remotes),
            environ,
            source=request.source,
            cuda_home=request.environ.get("CUDA_HOME"),
            known=(request.find_pin(commit),),
        )
        graft.build(wanted, output)
        return output

    return Rebuildable(
        (
            requirements.compiler(original, environ),
            requirements.pin(original, request),
            _require_torch(original, request),
            requirements.library(original, request),
        ),
        build,
    )


def _probe(original: RecordedBuild, request: RebuildRequest) -> Torch:
    python = request.find_interpreter(original.text("resolved.torch.python"))
    return probe_torch(python, {**request.environ, "SWITCHML_GRAFT": "0"}).require_gloo()


def _require_torch(original: RecordedBuild, request: RebuildRequest) -> Requirement:
    original.text("resolved.torch.python")
    recorded = {name: original.text(f"resolved.torch.{name}") for name in _COMPARED}
    for name in (*(f"torch/lib/{one}" for one in LIBRARIES), "torch/include"):
        digest = original.provenance.find_digest(name)
        if digest is not None:
            recorded[name] = digest

    def find() -> Mapping[str, object]:
        torch = _probe(original, request)
        with file_errors():
            listed: Any = provenance.list_materials(torch)
        digests = {one["name"]: one["digest"]["sha256"] for one in listed}
        return {**provenance.describe_torch(torch), **digests}

    return Requirement("torch", recorded, find)
