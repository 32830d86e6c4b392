"""source: the pinned commit of PyTorch with its submodules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchgen.cli import params
from patchgen.cli.console import Command, print_json, progress, say
from patchgen.cli.params import json_option, known_pins, pytorch_option
from patchgen.patch import pins
from patchgen.system import paths

if TYPE_CHECKING:
    from patchgen.source import Tree


@click.command(cls=Command)
@click.argument("directory", metavar="DIR", type=click.Path())
@pytorch_option
@params.source_options
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="Repositories that are fetched at once.",
)
@json_option
def source(  # noqa: PLR0913  # one for each option
    directory: str,
    pytorch: str | None,
    mirrors: tuple[str, ...],
    references: tuple[str, ...],
    jobs: int,
    *,
    as_json: bool,
) -> None:
    """Fetches the pinned commit of PyTorch with all its submodules, and verifies it.

    Goes on where a stopped run was. A tree that is there is verified and never changed; submodules
    that it lacks are added.
    """
    from patchgen import source as sources  # no other command needs it

    known, wanted = known_pins(pytorch)
    pin = wanted or sources.choose(directory, known, pins.find(pins.DEFAULT, known))
    found = params.sources(mirrors, references)
    with progress() as report:
        tree = sources.obtain(paths.from_native(directory), pin, found, jobs, report)
    if as_json:
        print_json(_data(tree))
    else:
        say(_line(tree))


def _line(tree: Tree) -> str:
    return (
        f"{paths.printable(tree.root)}: {tree.state} {tree.pin.name} ({tree.pin.commit[:12]}) with "
        f"{len(tree.commits) - 1} submodules, verified; {len(tree.fetched)} repositories fetched"
    )


def _data(tree: Tree) -> dict[str, object]:
    return {
        "tree": tree.root,
        "pin": tree.pin.name,
        "commit": tree.pin.commit,
        "state": tree.state,
        "repositories": [
            {"path": path, "commit": commit, "fetched_from": tree.fetched.get(path)}
            for path, commit in tree.commits.items()
        ],
    }
