"""Provenance of a plugin or a graft: its inputs, and the torch that it is for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from patchgen.core.library import origin
from patchgen.core.torch import LIBRARIES, Torch
from patchgen.errors import file_errors
from patchgen.options import Options
from patchgen.system import files, paths, statement
from patchgen.system.native import cache
from patchgen.system.statement import Provenance

PLUGIN, GRAFT = "plugin", "graft"
_HEADERS = ("c10", "torch/csrc/distributed/c10d")


def describe(  # noqa: PLR0913  # each is a part of it
    kind: str,
    path: str | None,
    options: Options,
    torch: Torch,
    built: Mapping[str, Any],
    *,
    request: Mapping[str, Any],
    sources: tuple[Mapping[str, Any], ...] = (),
    beside: tuple[str, ...] = (),
) -> Provenance:
    """Describe a plugin's wheel or a graft at `path`, which is None until it is written.

    `request` has other choices of the user, `sources` the inputs besides the client library and the
    torch, and `beside` the paths of other files that were written with it.

    Raises:
        FileError: an input cannot be read.
    """
    home = options.switchml_home
    with file_errors():
        return Provenance(
            kind=kind,
            subjects=tuple(map(files.measure, (path, *beside))) if path else (),
            request={
                **origin.describe_options(options), "variables": built["variables"], **request,
            },
            resolved={
                "torch": describe_torch(torch),
                "toolchain": built["toolchain"],
                **origin.describe_home(home),
            },
            materials=(*sources, *origin.list_materials(home), *list_materials(torch)),
        )  # fmt: skip


def describe_torch(torch: Torch) -> dict[str, object]:
    """Return the identity of a torch and its interpreter, as data for JSON."""
    return {
        "version": torch.version,
        "commit": torch.commit,
        "cuda": torch.cuda,
        "cxx11_abi": torch.cxx11_abi,
        "root": paths.printable(torch.root),
        "python": paths.printable(torch.python),
        "python_version": torch.python_version,
        "abi": torch.abi_tag,
        "platform": torch.platform,
    }


def list_materials(torch: Torch) -> list[dict[str, object]]:
    """Return the linked libraries of a torch and its distributed headers, with their digests.

    Raises:
        OSError: a file cannot be read.
    """
    found = []
    for name in LIBRARIES:
        path = os.path.join(torch.lib_dir, name)
        if os.path.exists(path):
            found.append(statement.describe_file(f"torch/lib/{name}", files.sha256(path)))
    headers = [os.path.join(torch.include_base, name) for name in _HEADERS]
    found.append(statement.describe_file("torch/include", cache.digest(*headers)))
    return found
