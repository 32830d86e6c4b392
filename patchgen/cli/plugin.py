"""plugin: the backend "switchml" for a torch that is installed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, progress, say
from patchgen.system import files, interpreter

if TYPE_CHECKING:
    from patchgen.cli.params import Variables


@click.group(cls=Group)
def plugin() -> None:
    """The backend "switchml" for an installed torch, without a patch."""


@dataclass(frozen=True)
class _Install:
    """Request of `plugin install`."""

    variables: Variables
    torch_python: str
    cache: str | None


@dataclass(frozen=True)
class _Build(_Install):
    """Request of `plugin build`."""

    output: str | None


@dataclass(frozen=True)
class _Sdist:
    """Request of `plugin sdist`."""

    variables: Variables
    output: str | None


def _build_wheel(request: _Install, python: str, directory: str | None) -> str:
    """Builds a wheel in a directory, or in BUILDDIR; returns its path.

    Raises:
        OptionsError: a flag is refused.
        ToolError: the interpreter has no torch with Gloo, or something could not be compiled.
    """
    from patchgen.extras.install import plugin as plugins

    options = request.variables.read()
    request.variables.warn(options)
    wanted = plugins.PluginRequest(
        options, params.torch_of(python), params.cache(request.cache), os.environ
    )
    place = options.builddir if directory is None else os.path.abspath(directory)
    with progress():
        return plugins.build(wanted, place)


@plugin.command(cls=Command)
@params.variable_options
@params.torch_option
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_DIRECTORY,
    metavar="DIR",
    help="Directory for the wheel. [default: BUILDDIR]",
)
@params.cache_option
@params.into(_Build)
def build(request: _Build) -> None:
    """Compiles the plugin and writes its wheel, for one torch and one interpreter."""
    python = interpreter.locate(request.torch_python)
    path = _build_wheel(request, python, request.output)
    say(f"wrote {path}")
    say(f"install it with: {python} -m pip install {path}")


@plugin.command(cls=Command)
@params.variable_options
@params.torch_option
@params.cache_option
@params.into(_Install)
def install(request: _Install) -> None:
    """Builds the plugin for a torch and installs it with the pip of its interpreter.

    Asks pip first whether it installs there. Neither torch nor any other package is changed.
    """
    from patchgen.extras.install.plugin import installing

    python = interpreter.locate(request.torch_python)
    installing.check(python, os.environ)
    with files.scratch("plugin") as directory:
        wheel = _build_wheel(request, python, directory)
        with progress():
            installing.install(python, wheel, os.environ)
    say(f'installed for {python}: init_process_group("switchml") uses it')


@plugin.command(cls=Command)
@params.flag_options
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_DIRECTORY,
    metavar="DIR",
    help="Directory for the archive. [default: BUILDDIR]",
)
@params.into(_Sdist)
def sdist(request: _Sdist) -> None:
    """Writes a source archive that pip compiles for the torch that it finds."""
    from patchgen.extras.install.plugin import sdist as archive

    options = request.variables.read()
    output = request.output
    directory = options.builddir if output is None else os.path.abspath(output)
    path = archive.write(options, directory)
    say(f"wrote {path}")
    say(f"install it with: SWITCHML_HOME=DIR PYTHON -m pip install --no-build-isolation {path}")
