"""graft: the patched process group for a torch that is installed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, progress, say
from patchgen.cli.params import known_pins, read_options, variable_options, warn
from patchgen.errors import TreeError
from patchgen.options import VARIABLES
from patchgen.system import files, interpreter, paths

if TYPE_CHECKING:
    from patchgen.options import Options

_NAME = "switchml_graft.so"
_VARIABLES = (*(variable.field for variable in VARIABLES), "dev_root")


@click.command(cls=Command)
@variable_options
@params.torch_option
@click.option(
    "--source",
    type=click.Path(),
    metavar="TREE",
    help="Source of that torch, patched or not. [default: fetch the files that are needed]",
)
@click.option(
    "--pytorch",
    metavar="PIN",
    help="Pin of the torch if it is not a shipped one. [default: the one of the torch's commit]",
)
@params.source_options
@click.option(
    "--cuda-home",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    envvar="CUDA_HOME",
    help="CUDA's headers, for CUDA tensors: a toolkit, or where NVIDIA's packages for Python are. "
    "[env: CUDA_HOME; default: /usr/local/cuda, or beside torch]",
)
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_FILE,
    metavar="LIB.so",
    help=f"File to write. [default: BUILDDIR/{_NAME}]",
)
@click.option(
    "--library",
    type=click.Path(),
    metavar="LIB.so",
    help="With --install: a graft that was made elsewhere for the same torch.",
)
@click.option(
    "--install", is_flag=True, help="Load the graft whenever this interpreter imports torch."
)
@click.option("--uninstall", is_flag=True, help="Undo --install.")
@click.option("--user", is_flag=True, help="With --install: for this user only.")
def graft(  # noqa: PLR0913  # one for each option
    torch_python: str,
    output: str | None,
    library: str | None,
    *,
    install: bool,
    uninstall: bool,
    user: bool,
    **given: Any,  # the other options
) -> None:
    """Compiles the patched files against an installed torch, instead of building it.

    The graft is loaded before that torch, by a hook that --install puts into the interpreter, or by
    switchml-patch run.
    """
    if uninstall and (install or output):
        raise click.UsageError("--uninstall stands alone; drop --install and -o")
    if user and not (install or uninstall):
        raise click.UsageError("--user has a meaning with --install and --uninstall only")
    if library and (output or not install):
        raise click.UsageError("--library is for --install, without -o")
    python = interpreter.located(torch_python)
    if uninstall:
        _uninstall(python, user=user)
    elif not install:
        options = _options(given)
        target = _output(output, options)
        _build(options, python, target, given)
        shown = paths.printable(paths.from_native(target))
        say(f"{shown}: load it with: switchml-patch graft --install, or switchml-patch run --graft")
    elif library:
        _compare(library, python)
        _install(python, library, user=user)
    else:
        from patchgen.graft import installing

        installing.check(python, os.environ, user=user)
        with files.scratch("graft") as directory:
            options = _options(given)
            target = _output(output, options) if output else os.path.join(directory, _NAME)
            _build(options, python, target, given)
            _install(python, target, user=user)


def _options(given: dict[str, Any]) -> Options:
    values = {name: value for name, value in given.items() if name in _VARIABLES}
    options = read_options(values)
    warn(options, strict=given["strict"])
    return options


def _output(output: str | None, options: Options) -> str:
    """Where the graft goes."""
    if output is not None:
        return os.path.join(os.getcwd(), output)
    return os.fsdecode(paths.encode(os.path.join(options.builddir, _NAME)))


def _build(options: Options, python: str, target: str, given: dict[str, Any]) -> None:
    from patchgen import graft as grafting

    known, wanted = known_pins(given["pytorch"])
    torch = params.torch_of(python)
    with progress():
        grafting.build(
            options, torch, given["source"], target,
            environ=os.environ,
            cache=params.cache(None),
            places=params.sources(given["mirrors"], given["references"]),
            cuda_home=given["cuda_home"],
            known=known if wanted is None else (wanted,),
        )  # fmt: skip


def _compare(library: str, python: str) -> None:
    from patchgen import graft as grafting

    why = grafting.misfit(grafting.read(library), params.torch_of(python).root)
    if why:
        raise TreeError(f"the graft {library}: {why}")


def _install(python: str, library: str, *, user: bool) -> None:
    from patchgen import graft as grafting

    package = grafting.install(python, library, os.environ, user=user)
    say(f"installed in {package}: {python} loads it whenever it imports torch")


def _uninstall(python: str, *, user: bool) -> None:
    from patchgen import graft as grafting

    package = grafting.uninstall(python, os.environ, user=user)
    say(f"removed {package}" if package else f"{python}: no graft is installed; nothing to do")
