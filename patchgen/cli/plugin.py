"""plugin: the backend "switchml" for an installed torch."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, progress, say
from patchgen.core.library import config
from patchgen.system import files, interpreter, paths

if TYPE_CHECKING:
    from patchgen.cli.params import Variables
    from patchgen.extras.install.plugin import PluginRequest


@click.group(cls=Group)
def plugin() -> None:
    """Build or install the backend "switchml" for an installed torch, without a patch."""


def _prepare(variables: Variables, python: str, cache: str | None) -> PluginRequest:
    """Probe the torch of an interpreter, and find the client library."""
    from patchgen.extras.install.plugin import PluginRequest, target

    options, directory = variables.read(), params.cache(cache)
    torch = params.torch_of(python)
    target.inspect(torch, os.environ)  # a torch without its headers is refused before any build
    library = variables.find_library(options, directory)
    return PluginRequest(library, torch, directory, os.environ)


@plugin.command(cls=Command)
@params.variable_options
@params.torch_option
@path_types.output_option("DIR", "Directory for the wheel. [default: BUILDDIR]")
@click.option(
    "--bundle",
    "bundled",
    is_flag=True,
    help="Include the libraries that the plugin links with, for machines without them.",
)
@params.cache_option
def build(
    *,
    variables: Variables,
    torch_python: str,
    cache: str | None,
    output: str | None,
    bundled: bool,
) -> None:
    """Compile the plugin, and write a wheel for one torch and one interpreter."""
    from patchgen.extras.install import plugin as plugins
    from patchgen.extras.install.plugin import bundle

    python = interpreter.locate(torch_python)
    with progress():
        wanted = _prepare(variables, python, cache)
        place = wanted.options.builddir if output is None else os.path.abspath(output)
        if bundled:
            made = bundle.build(wanted, place)
        else:
            made = bundle.Bundle(plugins.build(wanted, place))
    say(f"wrote {made.path}")
    if bundled:
        say(f"it has {len(made.inside)} libraries of this machine, in torch_switchml.libs")
        say(f"each machine needs {', '.join(['torch', *made.outside])}")
    found = interpreter.ask(python, os.environ)
    use = "train with DIR/bin/python"
    say(f"to install it, {found.advise_pip([made.path], use)}")


@plugin.command(cls=Command)
@params.library_options
@params.torch_option
@params.cache_option
def install(variables: Variables, torch_python: str, cache: str | None) -> None:
    """Build the plugin for a torch, and install it with the pip of its interpreter.

    Asks pip first whether it may install there. Changes neither torch nor any other package.
    Simulates the switch if no client library is named and none is in its default place.
    """
    from patchgen.extras.install import plugin as plugins
    from patchgen.extras.install.plugin import installing

    python = interpreter.locate(torch_python)
    installing.check(python, os.environ)
    with files.scratch("plugin") as directory, progress():
        wanted = _prepare(variables, python, cache)
        installing.install(python, plugins.build(wanted, directory), os.environ)
    say(f'installed for {python}: init_process_group("switchml") uses it')
    own = os.path.join(wanted.options.switchml_home, config.NAME)
    found = own if os.path.exists(paths.native(own)) else f"/etc/{config.NAME}"
    say(f"its ranks need: export SWITCHML_CONFIG={shlex.quote(paths.printable(found))}")
    say("a script that names gloo also needs: export SWITCHML_FOR_GLOO=1")


@plugin.command(cls=Command)
@params.torch_option
def uninstall(torch_python: str) -> None:
    """Uninstall the plugin with the pip of its interpreter."""
    from patchgen.extras.install.plugin import installing

    python = interpreter.locate(torch_python)
    removed = installing.uninstall(python, os.environ)
    say(f"removed from {python}" if removed else f"{python}: no plugin is installed; nothing to do")


@plugin.command(cls=Command)
@params.flag_options
@path_types.output_option("DIR", "Directory for the archive. [default: BUILDDIR]")
def sdist(variables: Variables, output: str | None) -> None:
    """Write a source archive that pip compiles for the torch that it finds."""
    from patchgen.extras.install.plugin import sdist as archive

    options = variables.read()
    directory = options.builddir if output is None else os.path.abspath(output)
    path = archive.write(options, directory)
    say(f"wrote {path}")
    say(
        f"install it with: SWITCHML_HOME=DIR PYTHON -m pip install --no-build-isolation "
        f"{shlex.quote(paths.printable(path))}"
    )
