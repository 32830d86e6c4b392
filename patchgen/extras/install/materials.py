"""Parts of an installed torch that the bytes of a plugin or a graft depend on, for provenance."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.core.torch import LIBRARIES
from patchgen.system import files, paths, statement
from patchgen.system.native import cache

if TYPE_CHECKING:
    from patchgen.core.torch import Torch

_HEADERS = ("c10", "torch/csrc/distributed/c10d")


def describe_torch(torch: Torch) -> dict[str, object]:
    """Describes a torch and its interpreter."""
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
    """Libraries of a torch that are linked, and the headers of its distributed part.

    Raises:
        OSError: one cannot be read.
    """
    found = []
    for name in LIBRARIES:
        path = os.path.join(torch.lib_dir, name)
        if os.path.exists(path):
            found.append(statement.describe_file(f"torch/lib/{name}", files.sha256(path)))
    headers = [os.path.join(torch.include_dirs[0], name) for name in _HEADERS]
    found.append(statement.describe_file("torch/include", cache.digest(*headers)))
    return found
