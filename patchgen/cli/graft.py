"""graft: the patched process group for a torch that is installed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, option, progress, say
from patchgen.errors import TreeError
from patchgen.system import files, interpreter, paths

if TYPE_CHECKING:
    from patchgen.cli.params import Sources, Variables
    from patchgen.options import Options

_NAME = "switchml_graft.so"


@click.group(cls=Group)
def graft() -> None:
    """Compiles the patched files against an installed torch, instead of building it.

    The graft is loaded before that torch, by a hook that `graft install` puts into the interpreter,
    or by switchml-patch run.
    """


@dataclass(frozen=True)
class _Source:
    """Source of a graft, and where else its compiler looks."""

    tree: str | None
    pytorch: str | None
    cuda_home: str | None
    cache: str | None
    places: Sources


@dataclass(frozen=True)
class _Build:
    """Request of `graft build`."""

    variables: Variables
    source: _Source
    torch_python: str
    output: str | None


@dataclass(frozen=True)
class _Install:
    """Request of `graft install`."""

    variables: Variables
    source: _Source
    torch_python: str
    library: str | None
    user: bool


@dataclass(frozen=True)
class _Uninstall:
    """Request of `graft uninstall`."""

    torch_python: str
    user: bool


def _source_options(command: params.Command) -> params.Command:
    """Adds the options about the source, handed on as `source`."""
    names = ("tree", "pytorch", "cuda_home", "cache", "places")
    command = params.gather("source", lambda given: _Source(**given), names)(command)
    for add in (
        params.cache_option,
        option(
            "--cuda-home",
            group="Places",
            type=click.Path(exists=True, file_okay=False),
            metavar="DIR",
            envvar="CUDA_HOME",
            help="CUDA's headers, for CUDA tensors: a toolkit, or where NVIDIA's packages for "
            "Python are. [env: CUDA_HOME; default: /usr/local/cuda, or beside torch]",
        ),
        params.place_options,
        option(
            "--pytorch",
            group="Source",
            metavar="PIN",
            help="Pin of the torch if it is not a shipped one. "
            "[default: the one of the torch's commit]",
        ),
        option(
            "--source",
            "tree",
            group="Source",
            type=click.Path(),
            metavar="TREE",
            help="Source of that torch, patched or not. [default: fetch the files that are needed]",
        ),
    ):
        command = add(command)
    return command


@graft.command(cls=Command)
@params.variable_options
@params.torch_option
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_FILE,
    metavar="LIB.so",
    help=f"File to write. [default: BUILDDIR/{_NAME}]",
)
@_source_options
@params.into(_Build)
def build(request: _Build) -> None:
    """Compiles a graft and tries it in its torch."""
    python = interpreter.locate(request.torch_python)
    options = _options(request.variables)
    target = _output(request.output, options)
    _compile(request.source, options, python, target)
    shown = paths.printable(paths.from_native(target))
    say(
        f"{shown}: load it with: switchml-patch graft install --library, "
        "or switchml-patch run --graft"
    )


@graft.command(cls=Command)
@params.variable_options
@params.torch_option
@click.option(
    "--library",
    type=click.Path(),
    metavar="LIB.so",
    help="A graft that was built for the same torch. [default: build one]",
)
@click.option("--user", is_flag=True, help="Install for this user only.")
@_source_options
@params.into(_Install)
def install(request: _Install) -> None:
    """Makes an interpreter load a graft whenever it imports torch.

    Builds the graft first unless --library names one.
    """
    python = interpreter.locate(request.torch_python)
    if request.library:
        _compare(request.library, python)
        _install(python, request.library, user=request.user)
        return
    from patchgen.extras.install.graft import installing

    installing.check(python, os.environ, user=request.user)
    with files.scratch("graft") as directory:
        options = _options(request.variables)
        target = os.path.join(directory, _NAME)
        _compile(request.source, options, python, target)
        _install(python, target, user=request.user)


@graft.command(cls=Command)
@params.torch_option
@click.option("--user", is_flag=True, help="Remove what `graft install --user` installed.")
@params.into(_Uninstall)
def uninstall(request: _Uninstall) -> None:
    """Removes an installed graft."""
    from patchgen.extras.install import graft as grafts

    python = interpreter.locate(request.torch_python)
    package = grafts.uninstall(python, os.environ, user=request.user)
    say(f"removed {package}" if package else f"{python}: no graft is installed; nothing to do")


def _options(variables: Variables) -> Options:
    options = variables.read()
    variables.warn(options)
    return options


def _output(output: str | None, options: Options) -> str:
    """Path of the graft to write."""
    if output is not None:
        return os.path.join(os.getcwd(), output)
    return os.fsdecode(paths.encode(os.path.join(options.builddir, _NAME)))


def _compile(source: _Source, options: Options, python: str, target: str) -> None:
    from patchgen.extras.install import graft as grafts

    known, wanted = params.known_pins(source.pytorch)
    torch = params.torch_of(python)
    with progress():
        grafts.build(
            options, torch, source.tree, target,
            environ=os.environ,
            cache=params.cache(source.cache),
            places=source.places.find(),
            cuda_home=source.cuda_home,
            known=known if wanted is None else (wanted,),
        )  # fmt: skip


def _compare(library: str, python: str) -> None:
    from patchgen.extras.install import graft as grafts

    why = grafts.misfit(grafts.read(library), params.torch_of(python).root)
    if why:
        raise TreeError(f"the graft {library}: {why}")


def _install(python: str, library: str, *, user: bool) -> None:
    from patchgen.extras.install import graft as grafts

    package = grafts.install(python, library, os.environ, user=user)
    say(f"installed in {package}: {python} loads it whenever it imports torch")
