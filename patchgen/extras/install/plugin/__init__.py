"""The plugin: the backend "switchml" for an installed torch, which stays as it is.

It is compiled from the delegate of the patch, and a process group that wraps the one of Gloo.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from patchgen.core.library import homes, origin
from patchgen.core.patch.version import local_version
from patchgen.errors import file_errors
from patchgen.extras.install import materials
from patchgen.extras.install.plugin import project, target, wheel
from patchgen.system import files, native, outputs, statement
from patchgen.system.statement import Provenance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.core.torch import Torch
    from patchgen.options import Options

KIND = "plugin"
_LOGGER = logging.getLogger(__name__)


def build(
    options: Options, torch: Torch, directory: str, *, cache: str, environ: Mapping[str, str]
) -> str:
    """Writes the wheel `torch_switchml` for a torch, and its provenance beside it.

    Args:
        options: the flags and homes, as for the patch.
        torch: the torch that it is for; a wheel loads into no other.
        directory: where the wheel goes; made when it is not there.
        cache: directory of the cache, which may have what is compiled.
        environ: has the compiler and its flags.

    Returns:
        The path of the wheel.

    Raises:
        ToolError: the torch has no headers, or cmake or the compiler failed.
        FileError: the directory or the cache cannot be written.
    """
    _LOGGER.info("torch %s in %s", torch.version, torch.root)
    wanted = target.inspect(torch)
    product = native.get_or_build(
        native.Project(
            "plugin-module", "the process group and the delegate", project.library(wanted),
            files=project.sources(options, wanted),
            inputs=(homes.stamp_homes(options), torch.stamps),
        ),
        cache, environ,
    )  # fmt: skip
    if not product.new:
        _LOGGER.info("taking the compiled module from the cache")
    with file_errors(), open(product.path, "rb") as file:
        library = file.read()
    _LOGGER.info("writing the wheel")
    contents = {
        **project.modules(wanted),
        f"{wheel.PACKAGE}/{project.library(wanted)}": library,
    }
    with outputs.directory(directory):
        path = wheel.write(
            directory, contents,
            release=wanted.release,
            local=local_version(options),
            tag=wanted.tag,
            group=wanted.entry_points,
        )  # fmt: skip
        statement.write(path, _describe_wheel(options, torch, path, product.built))
    return path


def _describe_wheel(
    options: Options,
    torch: Torch,
    path: str,
    built: Mapping[str, Any],
) -> Provenance:
    """Provenance of a wheel."""
    home = options.switchml_home
    with file_errors():
        return Provenance(
            kind=KIND,
            subjects=(files.measure(path),),
            request={
                **origin.describe_options(options),
                "bundle": False,
                "variables": built["variables"],
            },
            resolved={
                "torch": materials.describe_torch(torch),
                "toolchain": built["toolchain"],
                **origin.describe_home(home),
            },
            materials=(*origin.list_materials(home), *materials.list_materials(torch)),
        )
