"""client: SwitchML's client library, from its source to a SWITCHML_HOME."""

from __future__ import annotations

import functools
import logging
import os
import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, completing, end, option, print_json, progress, say
from patchgen.extras.client import checkout, fixes
from patchgen.options import VARIABLES
from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.cli.params import Variables
    from patchgen.core.library.archive import Archive
    from patchgen.core.source.remotes import Remotes
    from patchgen.extras.client.checkout import CommitOrigin
    from patchgen.extras.client.fixes import Fix

_LOGGER = logging.getLogger(__name__)
_source_argument = click.argument(
    "source", metavar="[SOURCE]", required=False, type=path_types.Named()
)
_without_option = option(
    "--without", group="Source", multiple=True, metavar="ID",
    help="Fix to leave out. May be repeated.",
    shell_complete=completing(lambda: [fix.id for fix in fixes.read_shipped()]),
)  # fmt: skip
_list_option = click.option("--list", "listed", is_flag=True, help="Print the fixes and exit.")
_library_options = functools.partial(
    params.these_variables,
    variables=[
        variable if variable.boolean else variable._replace(default="the system's packages")
        for variable in VARIABLES
        if variable.name not in {"BUILDDIR", "SWITCHML_HOME"}
    ],
)
"""Flags and homes that the client library itself is built with."""


def _find_origin(
    source: str | None, cache: str | None, remotes: Remotes, commit: str = fixes.COMMIT
) -> CommitOrigin:
    """Find the remotes of a commit, and print which files of SOURCE are not in it."""
    if source:
        reference = checkout.find_reference(source, commit)
        for line in checkout.list_ignored(reference, commit):
            say(f"note: {line}")
        remotes = replace(remotes, references=[*remotes.references, reference])
    return checkout.CommitOrigin(params.cache(cache), remotes, commit=commit)


def _check_commit(given: str) -> str:
    if not re.fullmatch("[0-9a-f]{40}", given):
        raise click.BadParameter(f"{given}: not all 40 digits of a commit")
    return given


@click.group(cls=Group)
def client() -> None:
    """Fetch, fix, compile and install SwitchML's client library."""


@client.command(cls=Command)
@path_types.output_option(
    "DIR",
    f"Directory for the clone. [default: {checkout.NAME}]",
    kind=path_types.Named(),
    default=checkout.NAME,
)
@params.remote_options
@params.cache_option
def source(output: str, remotes: Remotes, cache: str | None) -> None:
    """Fetch the pinned commit of p4app-switchML, and verify it.

    An existing clone is verified and never changed. Submodules are not needed.
    """
    origin = _find_origin(None, cache, remotes)
    with progress():
        came = checkout.obtain(paths.from_native(output), origin)
    state = f"fetched from {came}" if came else "was there"
    say(f"{output}: {checkout.NAME} {origin.commit[:12]}, verified; {state}")


def _home(variables: Variables, path: str, variable: str) -> str:
    """Return the home if the user named it, else "": the system's packages are used."""
    named = variables.given[variable.lower()] or os.environ.get(variable)
    return path if named else ""


@client.command(cls=Command)
@_source_argument
@_library_options
@path_types.output_option("HOME", "Directory to install into. [default: SWITCHML_HOME]")
@_without_option
@click.option(
    "--commit",
    callback=lambda _context, _option, given: _check_commit(given),
    default=fixes.COMMIT,
    metavar="ID",
    help="Commit to build instead of the pinned one, all 40 digits. Fixes that do not fit it are "
    "left out, with a warning.",
)
@click.option(
    "--cxx11-abi",
    type=click.Choice(["0", "1"]),
    help="Value of _GLIBCXX_USE_CXX11_ABI, the same as gRPC's. [default: the compiler's]",
)
@_list_option
@params.remote_options
@params.cache_option
def build(
    *,
    source: str | None,
    cache: str | None,
    remotes: Remotes,
    variables: Variables,
    output: str | None,
    without: tuple[str, ...],
    commit: str,
    cxx11_abi: str | None,
    listed: bool,
) -> None:
    """Compile the client library from SOURCE, with fixes, and install it.

    SOURCE is a clone of p4app-switchML that has the commit. Without SOURCE the commit comes from
    the cache, a mirror or the network. Uncommitted changes are ignored. DPDK and gRPC are the
    system's packages, unless their homes are named.
    """
    from patchgen.extras.client import building

    chosen = fixes.choose(without, fixes.read_shipped())
    if listed:
        _list(chosen)
        return
    options = variables.read()
    home = paths.from_native(os.path.abspath(output)) if output else options.switchml_home
    pinned = _find_origin(source, cache, remotes, commit)
    with progress():
        _LOGGER.info("reading %s %s", checkout.NAME, pinned.commit[:12])
        sources = checkout.read_sources(pinned)
        if commit != fixes.COMMIT:
            chosen = _choose_fitting(chosen, sources)
        wish = building.ClientRequest(
            tuple(options.flags),
            chosen,
            dpdk_home=_home(variables, options.dpdk_home, "DPDK_HOME"),
            grpc_home=_home(variables, options.grpc_home, "GRPC_HOME"),
            cxx11_abi=None if cxx11_abi is None else cxx11_abi == "1",
            commit=commit,
        )
        building.install(wish, sources, home, os.environ)
    place = shlex.quote(paths.printable(home))
    flags = "".join(f"--{flag.lower()} " for flag in options.flags)
    say(f"use it with: {flags}--switchml-home {place}")


def _choose_fitting(chosen: tuple[Fix, ...], sources: Mapping[str, bytes]) -> tuple[Fix, ...]:
    """Return the fixes that fit the source, and print a warning for each of the others."""
    others = {fix: path for fix in chosen if (path := fixes.find_other(fix, sources))}
    for fix, path in others.items():
        say(f"warning: without the fix {fix.id}, which does not fit: {path} is another file")
    return tuple(fix for fix in chosen if fix not in others)


@client.command(cls=Command)
@_source_argument
@path_types.output_option(
    "FILE", "File for the patch. [default: stdout]", kind=path_types.OUTPUT_FILE
)
@click.option(
    "--controller",
    is_flag=True,
    help="Use the fixes of the switch's controller, instead of those of the client library.",
)
@_without_option
@_list_option
@params.remote_options
@params.cache_option
def patch(
    *,
    source: str | None,
    cache: str | None,
    remotes: Remotes,
    output: str | None,
    without: tuple[str, ...],
    controller: bool,
    listed: bool,
) -> None:
    """Write the fixes as a patch for the pinned commit of p4app-switchML.

    Apply it with git apply in a clone, and build that with SwitchML's own Makefile. With
    --controller, apply it in the clone on the switch, and restart the controller there.
    """
    from patchgen.core.patch import diff
    from patchgen.system import files

    part = fixes.CONTROLLER if controller else fixes.LIBRARY
    chosen = fixes.choose(without, fixes.read_shipped(part))
    if listed:
        _list(chosen)
        return
    with progress():
        sources = checkout.read_sources(_find_origin(source, cache, remotes), part)
    after = fixes.apply(chosen, sources)
    fixes.verify(chosen, after, part)
    content = b"".join(diff.between(path, sources.get(path), after[path]) for path in sorted(after))
    if output is None:
        click.echo(content, nl=False)
        return
    with files.replacing(output) as file:
        file.write(content)
    say(f"wrote {output}; apply it with: git apply {shlex.quote(os.path.abspath(output))}")


@client.command(cls=Command)
@click.argument("home", type=path_types.Named())
@params.json_option
def status(home: str, *, as_json: bool) -> None:
    """Show what the client library in HOME was built with, and which fixes it has.

    Exits with 0 if the library has all fixes or is the simulator. Exits with 3 if a fix is missing,
    or if HOME has no client library.
    """
    from patchgen.core.library import archive, homes
    from patchgen.errors import TreeError, file_errors

    place = paths.from_native(home)
    if not os.path.lexists(archive.path(place)):
        raise TreeError(f"{paths.printable(place)}: no client library, which is {homes.ARCHIVE}")
    with file_errors():
        found = archive.read(place)
        linked = archive.read_links(place) or ()
    known = fixes.read_shipped()
    has = found.mark.fixes if found.mark else ()
    lacking = [] if found.simulator else [fix for fix in known if fix.id not in has]
    if as_json:
        print_json(_data(found, [fix.id for fix in lacking], [*linked]))
    else:
        click.echo(f"{paths.printable(place)}: {found.about}")
        if found.mark:
            click.echo(f"flags: {', '.join(found.mark.flags)}")
            click.echo(f"fixes: {', '.join(has) or 'none'}")
        for line in [f"links with: {', '.join(linked)}"] if linked else []:
            click.echo(line)
        for fix in lacking:
            click.echo(f"lacks {fix.id}: {fix.title}")
    if lacking:
        end(TreeError.exit_code)


def _data(archive: Archive, lacking: list[str], linked: list[str]) -> dict[str, object]:
    mark = archive.mark
    return {
        "simulator": archive.simulator,
        "backends": [*archive.backends],
        "timeouts": archive.timeouts,
        "cxx11_abi": archive.cxx11_abi,
        "debug": archive.debug,
        "commit": mark.commit if mark else None,
        "flags": [*mark.flags] if mark else None,
        "fixes": [*mark.fixes] if mark else None,
        "lacking": lacking,
        "links_with": linked,
    }


def _list(chosen: tuple[Fix, ...]) -> None:
    for fix in chosen:
        click.echo(f"{fix.id}: {fix.title}")
