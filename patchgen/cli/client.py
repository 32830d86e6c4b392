"""client: SwitchML's client library, from its source to a SWITCHML_HOME."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, print_json, progress, say
from patchgen.client import checkout
from patchgen.options import VARIABLES
from patchgen.system import paths

if TYPE_CHECKING:
    from patchgen.client.checkout import Origin
    from patchgen.client.library import Archive
    from patchgen.client.mends import Mend

_source_argument = click.argument("source", metavar="[SOURCE]", required=False, type=click.Path())
_without_option = click.option(
    "--without", multiple=True, metavar="ID", help="Mend to leave out. May be repeated."
)
_list_option = click.option("--list", "listed", is_flag=True, help="Print the mends and end.")


def _options(command: Any) -> Any:  # as in click
    """The flags and homes that the library itself is built with."""
    wanted = ("DPDK", "MLX5", "MLX4", "RDMA", "DEBUG", "GRPC_HOME", "DPDK_HOME")
    known = [variable for variable in VARIABLES if variable.name in wanted]
    own = [v if v.boolean else replace(v, default="the system's packages") for v in known]
    return params.these_variables(command, own)


@click.group(cls=Group)
def client() -> None:
    """SwitchML's client library: its source, mended, compiled and installed."""


@client.command(cls=Command)
@click.argument(
    "directory", metavar="[DIR]", required=False, type=click.Path(), default=checkout.NAME
)
@params.source_options
@params.cache_option
def source(directory: str, **given: Any) -> None:  # the options above
    """Fetches the pinned commit of p4app-switchML into DIR, and verifies it.

    A clone that is there is verified and never changed. Submodules are not needed. [default of DIR:
    p4app-switchML]
    """
    origin = _origin(None, given)
    with progress():
        came = checkout.obtain(paths.from_native(directory), origin)
    state = f"fetched from {came}" if came else "was there"
    say(f"{directory}: {checkout.NAME} {origin.commit[:12]}, verified; {state}")


@client.command(cls=Command)
@_source_argument
@_options
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_DIRECTORY,
    metavar="HOME",
    help="Directory to install into. [default: SWITCHML_HOME]",
)
@_without_option
@click.option(
    "--cxx11-abi",
    type=click.Choice(["0", "1"]),
    help="Value of _GLIBCXX_USE_CXX11_ABI. gRPC has to have the same. [default: the compiler's]",
)
@_list_option
@params.source_options
@params.cache_option
def build(
    source: str | None,
    *,
    output: str | None,
    without: tuple[str, ...],
    cxx11_abi: str | None,
    listed: bool,
    **given: Any,
) -> None:
    """Compiles the client library from SOURCE, with mends, and installs it.

    SOURCE is a clone of p4app-switchML that has the pinned commit. Without it the commit comes from
    the cache, a mirror or the network. Only what is committed counts. DPDK and gRPC are the
    system's packages, unless their homes are named.
    """
    from patchgen.client import building, mends  # no other command needs it

    chosen = mends.chosen(without, mends.shipped())
    if listed:
        _list(chosen)
        return
    options = params.read_options(given)
    wish = building.Wish(
        tuple(options.flags),
        chosen,
        dpdk_home=_named(options.dpdk_home, "DPDK_HOME", given),
        grpc_home=_named(options.grpc_home, "GRPC_HOME", given),
        cxx11_abi=None if cxx11_abi is None else cxx11_abi == "1",
    )
    home = paths.from_native(os.path.abspath(output)) if output else options.switchml_home
    origin = _origin(source, given)
    with progress() as report:
        report(f"reading {checkout.NAME} {origin.commit[:12]}")
        sources = checkout.read(origin)
        building.install(wish, sources, home)
    place = shlex.quote(paths.printable(home))
    say(f"use it with: {' '.join(_words(options.flags))}--switchml-home {place}")


@client.command(cls=Command)
@_source_argument
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_FILE,
    metavar="FILE",
    help="File for the patch. [default: stdout]",
)
@_without_option
@_list_option
@params.source_options
@params.cache_option
def patch(
    source: str | None, *, output: str | None, without: tuple[str, ...], listed: bool, **given: Any
) -> None:
    """Writes the mends as a patch for the pinned commit of p4app-switchML.

    It is for git apply, in a clone that is then built with SwitchML's own Makefile.
    """
    from patchgen.client import mends  # no other command needs it
    from patchgen.patch import diff
    from patchgen.system import files

    chosen = mends.chosen(without, mends.shipped())
    if listed:
        _list(chosen)
        return
    with progress():
        sources = checkout.read(_origin(source, given))
    after = mends.apply(chosen, sources)
    mends.verify(chosen, after)
    content = b"".join(diff.between(path, sources.get(path), after[path]) for path in sorted(after))
    if output is None:
        click.echo(content, nl=False)
        return
    with files.replacing(output) as file:
        file.write(content)
    say(f"wrote {output}; apply it with: git apply {shlex.quote(os.path.abspath(output))}")


@client.command(cls=Command)
@click.argument("home", type=click.Path())
@params.json_option
@click.pass_context
def status(ctx: click.Context, home: str, *, as_json: bool) -> None:
    """Tells what the client library in HOME was built with, and which mends it has.

    Exits with 0 where it has all mends or is the simulator, with 3 where it lacks some, and where
    HOME has no client library.
    """
    from patchgen.client import library, mends
    from patchgen.errors import TreeError, file_errors

    place = paths.from_native(home)
    if not os.path.lexists(library.path(place)):
        raise TreeError(f"{paths.printable(place)}: no client library, which is {library.ARCHIVE}")
    try:
        with file_errors():
            archive = library.read(place)
            linked = library.links(place) or ()
    except library.ArchiveError as error:
        raise TreeError(f"{library.path(place)}: {error}") from error
    known = mends.shipped()
    has = archive.mark.mends if archive.mark else ()
    lacking = [] if archive.simulator else [mend for mend in known if mend.id not in has]
    if as_json:
        print_json(_data(archive, [mend.id for mend in lacking], [*linked]))
    else:
        click.echo(f"{paths.printable(place)}: {archive.about}")
        if archive.mark:
            click.echo(f"flags: {', '.join(archive.mark.flags)}")
            click.echo(f"mends: {', '.join(has) or 'none'}")
        for line in [f"links with: {', '.join(linked)}"] if linked else []:
            click.echo(line)
        for mend in lacking:
            click.echo(f"lacks {mend.id}: {mend.title}")
    if lacking:
        ctx.exit(TreeError.exit_code)


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
        "mends": [*mark.mends] if mark else None,
        "lacking": lacking,
        "links_with": linked,
    }


def _list(mends: tuple[Mend, ...]) -> None:
    for mend in mends:
        click.echo(f"{mend.id}: {mend.title}")


def _named(home: str, variable: str, given: dict[str, Any]) -> str:
    """A home that the user named; empty for packages."""
    return home if given[variable.lower()] or os.environ.get(variable) else ""


def _words(flags: tuple[str, ...]) -> list[str]:
    return [f"--{flag.lower()} " for flag in flags]


def _origin(source: str | None, given: dict[str, Any]) -> Origin:
    references = [checkout.reference(source)] if source else []
    places = params.sources(given["mirrors"], [*given["references"], *references])
    return checkout.Origin(params.cache(given["cache"]), places)
