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
    from patchgen.extras.install.plugin.bundle import Bundle


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
    bundled: bool


@dataclass(frozen=True)
class _Sdist:
    """Request of `plugin sdist`."""

    variables: Variables
    output: str | None


def _build_wheel(
    request: _Install, python: str, directory: str | None, *, bundled: bool = False
) -> Bundle:
    """Builds a wheel in a directory, or in BUILDDIR, with the libraries that it links or without.

    Raises:
        OptionsError: a flag is refused.
        ToolError: the interpreter has no torch with Gloo, or something could not be compiled.
    """
    from patchgen.extras.install import plugin as plugins
    from patchgen.extras.install.plugin import bundle

    options = request.variables.read()
    request.variables.warn(options)
    wanted = plugins.PluginRequest(
        options, params.torch_of(python), params.cache(request.cache), os.environ
    )
    place = options.builddir if directory is None else os.path.abspath(directory)
    with progress():
        if bundled:
            return bundle.build(wanted, place)
        return bundle.Bundle(plugins.build(wanted, place))


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
@click.option(
    "--bundle",
    "bundled",
    is_flag=True,
    help="Put the libraries that the plugin links into the wheel, for machines without them.",
)
@params.cache_option
@params.into(_Build)
def build(request: _Build) -> None:
    """Compiles the plugin and writes its wheel, for one torch and one interpreter."""
    python = interpreter.locate(request.torch_python)
    made = _build_wheel(request, python, request.output, bundled=request.bundled)
    say(f"wrote {made.path}")
    if request.bundled:
        say(f"it has {len(made.inside)} libraries of this machine, in torch_switchml.libs")
        say(f"each machine needs {', '.join(['torch', *made.outside])}")
    say(f"install it with: {python} -m pip install {made.path}")


@plugin.command(cls=Command)
@params.library_options
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
        made = _build_wheel(request, python, directory)
        with progress():
            installing.install(python, made.path, os.environ)
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
