"""source: the pinned commit of PyTorch with its submodules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, print_json, progress, say
from patchgen.cli.params import json_option, known_pins, pytorch_option
from patchgen.core.patch import pins
from patchgen.errors import ToolError
from patchgen.system import paths, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.cli.params import Sources
    from patchgen.core.source import ListedRepository, Source


@dataclass(frozen=True)
class _Request:
    """Request of `source`."""

    directory: str | None
    pytorch: str | None
    places: Sources
    without: tuple[str, ...]
    everything: bool
    listed: bool
    cache: str | None
    as_json: bool


@click.command(cls=Command)
@click.option(
    "-o",
    "--output",
    "directory",
    type=path_types.Named(),
    metavar="DIR",
    help="Directory of the tree. [required but for --list]",
)
@pytorch_option
@params.place_options
@params.without_option
@click.option("--all", "everything", is_flag=True, help="Fetch what was left out before, too.")
@click.option(
    "--list",
    "listed",
    is_flag=True,
    help="Print which repositories are needed, nested ones too, with commit and address, and "
    "whether DIR has them. Nothing is written there.",
)
@params.cache_option
@json_option
@params.into(_Request)
def source(request: _Request) -> None:
    """Fetches the pinned commit of PyTorch with all its submodules, and verifies it.

    Goes on where a stopped run was. A tree that is there is verified and never changed; submodules
    that it lacks are added, but for those that were left out.
    """
    from patchgen.core import source as sources  # no other command needs it

    if request.directory is None and not request.listed:
        raise click.UsageError("Missing option '-o' / '--output'.")
    place = request.directory or "."
    known, named = known_pins(request.pytorch)
    pin = named or sources.choose_pin(place, known, pins.find(pins.DEFAULT, known))
    wanted = sources.SourceRequest(
        pin,
        without=request.without,
        everything=request.everything,
        places=request.places.find(),
    )
    native = paths.from_native(place)
    if request.listed:
        cache = params.cache(request.cache)
        with progress():
            needed = sources.list_needed(native, wanted, cache)
        _show(needed, as_json=request.as_json)
        return
    with progress():
        tree = sources.obtain(native, wanted)
    if request.as_json:
        print_json(_data(tree))
    else:
        say(_line(tree))


def _show(needed: Sequence[ListedRepository], *, as_json: bool) -> None:
    """Prints a list.

    Raises:
        ToolError: it is not complete.
    """
    from patchgen.core import source as sources

    if as_json:
        print_json([_entry(one) for one in needed])
    else:
        rows = [
            (paths.printable(one.path) or ".", one.commit, one.addresses[0], one.state)
            for one in needed
        ]
        for line in tables.lines(("path", "commit", "address", "state"), rows, words=4):
            click.echo(line)
    unknown = [one.unknown for one in needed if one.unknown]
    if unknown:
        raise ToolError(f"the list lacks what is in these:\n{sources.summarize(unknown)}")


def _entry(one: ListedRepository) -> dict[str, object]:
    return {
        "path": one.path,
        "commit": one.commit,
        "addresses": list(one.addresses),
        "name": one.name,
        "state": one.state,
        "complete": not one.unknown,
    }


def _line(tree: Source) -> str:
    left_out = f", {len(tree.left_out)} left out" if tree.left_out else ""
    return (
        f"{paths.printable(tree.root)}: {tree.state} {tree.pin.name} ({tree.pin.commit[:12]}) with "
        f"{len(tree.commits) - 1} submodules{left_out}, verified; {len(tree.fetched)} repositories "
        "fetched"
    )


def _data(tree: Source) -> dict[str, object]:
    return {
        "tree": tree.root,
        "pin": tree.pin.name,
        "commit": tree.pin.commit,
        "state": tree.state,
        "repositories": [
            {"path": path, "commit": commit, "fetched_from": tree.fetched.get(path)}
            for path, commit in tree.commits.items()
        ],
        "left_out": list(tree.left_out),
    }
