"""graft: the patched process group for an installed torch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, option, progress, say
from patchgen.errors import TreeError
from patchgen.system import interpreter, paths

if TYPE_CHECKING:
    from patchgen.cli.params import Variables
    from patchgen.core.source.remotes import Remotes

_NAME = "switchml_graft.so"


@click.group(cls=Group)
def graft() -> None:
    """Compile the patched files against an installed torch, instead of building it.

    The graft is loaded before torch, by a hook that `graft install` adds to the interpreter, or by
    switchml-patch run.
    """


@graft.command(cls=Command)
@params.variable_options
@params.torch_option
@path_types.output_option(
    "LIB.so", f"File to write. [default: BUILDDIR/{_NAME}]", kind=path_types.OUTPUT_FILE
)
@option(
    "--source",
    "tree",
    group="Source",
    type=path_types.Named(),
    metavar="TREE",
    help="Source of this torch, patched or not. [default: fetch the files that are needed]",
)
@option(
    "--pytorch",
    group="Source",
    type=path_types.Named(),
    metavar="PIN",
    shell_complete=params.complete_pin,
    help="Pin of this torch if it is not shipped. [default: the pin of the torch's commit]",
)
@params.remote_options
@option(
    "--cuda-home",
    group=params.PATHS,
    type=path_types.Named(exists=True, file_okay=False),
    metavar="DIR",
    envvar="CUDA_HOME",
    help="Directory of CUDA's headers, for CUDA tensors: a toolkit, or NVIDIA's Python packages. "
    "[env: CUDA_HOME; default: /usr/local/cuda, or beside torch]",
)
@params.cache_option
def build(
    *,
    variables: Variables,
    torch_python: str,
    tree: str | None,
    pytorch: str | None,
    cuda_home: str | None,
    cache: str | None,
    remotes: Remotes,
    output: str | None,
) -> None:
    """Compile a graft, and try it in its torch."""
    from patchgen.extras.install import graft as grafts
    from patchgen.extras.install.graft.sources import GraftOrigin

    options, directory = variables.read(), params.cache(cache)
    python = interpreter.locate(torch_python)
    known, wanted = params.known_pins(pytorch)
    torch = params.torch_of(python)
    with progress():
        library = variables.find_library(options, directory)
    made = grafts.GraftRequest(
        library,
        torch,
        GraftOrigin(directory, remotes),
        os.environ,
        source=tree,
        cuda_home=cuda_home,
        known=tuple(known) if wanted is None else (wanted,),
    )
    default = os.fsdecode(paths.encode(os.path.join(options.builddir, _NAME)))
    target = os.path.abspath(output or default)
    with progress():
        grafts.build(made, target)
    shown = paths.printable(paths.from_native(target))
    say(f"{shown}: load it with: switchml-patch graft install, or switchml-patch run --graft")


@graft.command(cls=Command)
@click.argument("library", metavar="LIB.so", type=path_types.Named())
@params.torch_option
@click.option("--user", is_flag=True, help="Install for this user only.")
def install(library: str, torch_python: str, *, user: bool) -> None:
    """Make an interpreter load a graft whenever it imports torch.

    LIB.so was written by `graft build` for the same torch.
    """
    from patchgen.extras.install.graft import identity, installing

    python = interpreter.locate(torch_python)
    torch = params.torch_of(python)
    why = identity.misfit(identity.read(library), torch.root)
    if why:
        raise TreeError(f"the graft {library}: {why}")
    package = installing.install(python, library, os.environ, user=user)
    say(f"installed in {package}: {python} loads it whenever it imports torch")


@graft.command(cls=Command)
@params.torch_option
@click.option("--user", is_flag=True, help="Uninstall the graft of `graft install --user`.")
def uninstall(torch_python: str, *, user: bool) -> None:
    """Uninstall a graft."""
    from patchgen.extras.install.graft import installing

    python = interpreter.locate(torch_python)
    package = installing.uninstall(python, os.environ, user=user)
    say(f"removed {package}" if package else f"{python}: no graft is installed; nothing to do")
