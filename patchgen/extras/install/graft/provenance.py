"""Provenance of a graft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchgen.core.library import origin
from patchgen.core.source.addresses import PYTORCH
from patchgen.errors import file_errors
from patchgen.extras.install import materials
from patchgen.system import files, statement
from patchgen.system.statement import Provenance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.core.patch.pins import Pin
    from patchgen.core.torch import Torch
    from patchgen.options import Options

KIND = "graft"
SOURCE = "pytorch"
"""Name of PyTorch's commit among the inputs."""


def describe_graft(
    graft: str,
    options: Options,
    pin: Pin,
    torch: Torch,
    built: Mapping[str, Any],
) -> Provenance:
    """Describes a graft that was written.

    Args:
        graft: the shared object.
        options: the flags and homes.
        pin: of the source.
        torch: that it is for.
        built: the tools that compiled it.

    Raises:
        FileError: something that it was made from cannot be read.
    """
    home = options.switchml_home
    with file_errors():
        return Provenance(
            kind=KIND,
            subjects=(files.measure(graft),),
            request={
                "pin": {"name": pin.name, "commit": pin.commit},
                **origin.describe_options(options),
                "variables": built["variables"],
            },
            resolved={
                "torch": materials.describe_torch(torch),
                "toolchain": built["toolchain"],
                **origin.describe_home(home),
            },
            materials=(
                statement.describe_commit(SOURCE, PYTORCH, pin.commit),
                *origin.list_materials(home),
                *materials.list_materials(torch),
            ),
        )
