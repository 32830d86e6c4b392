"""Rebuild of a plugin or a graft from its provenance."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from patchgen.core.torch import LIBRARIES, Torch, probe_torch
from patchgen.core.wheel.rebuild import Means, Original
from patchgen.core.wheel.rebuild.needs import (
    Need,
    Rebuildable,
    need_compiler,
    need_library,
    need_pin,
)
from patchgen.errors import file_errors
from patchgen.extras.install import graft, plugin, provenance
from patchgen.extras.install.plugin import bundle

_COMPARED = ("version", "commit", "root", "python_version")
"""Values of a torch that must be the recorded ones, besides its files."""


def read_plugin(original: Original, means: Means) -> Rebuildable:
    """Return what a rebuild of a plugin requires, and a function that builds it as recorded.

    Raises:
        OptionsError: the provenance has a value that cannot be used.
    """
    options, environ = original.options(), means.make_environ(original)
    bundled = original.truth("request.bundle")

    def build(directory: str, cache: str) -> str:
        request = plugin.PluginRequest(options, _probe(original, means), cache, environ)
        if bundled:
            return bundle.build(request, directory).path
        return plugin.build(request, directory)

    return Rebuildable(
        (
            need_compiler(original, environ),
            _need_torch(original, means),
            need_library(original, means),
        ),
        build,
    )


def read_graft(original: Original, means: Means) -> Rebuildable:
    """Return what a rebuild of a graft requires, and a function that builds it as recorded.

    Raises:
        OptionsError: the provenance has a value that cannot be used.
    """
    options, environ = original.options(), means.make_environ(original)
    commit, name = original.text("request.pin.commit"), original.provenance.subjects[0].name

    def build(directory: str, cache: str) -> str:
        output = os.path.join(directory, name)
        request = graft.GraftRequest(
            options,
            _probe(original, means),
            graft.GraftOrigin(cache, means.places),
            environ,
            source=means.source,
            cuda_home=means.environ.get("CUDA_HOME"),
            known=(means.find_pin(commit),),
        )
        graft.build(request, output)
        return output

    return Rebuildable(
        (
            need_compiler(original, environ),
            need_pin(original, means),
            _need_torch(original, means),
            need_library(original, means),
        ),
        build,
    )


def _probe(original: Original, means: Means) -> Torch:
    """Probe the torch that a plugin or a graft is for.

    Raises:
        OptionsError: its interpreter is missing.
        ToolError: the interpreter has no torch with Gloo.
    """
    python = means.find_interpreter(original.text("resolved.torch.python"))
    return probe_torch(python, {**means.environ, "SWITCHML_GRAFT": "0"}).require_gloo()


def _need_torch(original: Original, means: Means) -> Need:
    original.text("resolved.torch.python")
    recorded = {name: original.text(f"resolved.torch.{name}") for name in _COMPARED}
    for name in (*(f"torch/lib/{one}" for one in LIBRARIES), "torch/include"):
        digest = original.provenance.find_digest(name)
        if digest is not None:
            recorded[name] = digest

    def find() -> Mapping[str, object]:
        torch = _probe(original, means)
        with file_errors():
            listed: Any = provenance.list_materials(torch)
        digests = {one["name"]: one["digest"]["sha256"] for one in listed}
        return {**provenance.describe_torch(torch), **digests}

    return Need("torch", recorded, find)
