"""source: the pinned commit of PyTorch with its submodules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, print_json, progress, say
from patchgen.cli.params import json_option, known_pins, pytorch_option
from patchgen.core.patch import pins
from patchgen.system import paths

if TYPE_CHECKING:
    from patchgen.core.source import Source
    from patchgen.core.source.remotes import Remotes


@click.command(cls=Command)
@path_types.output_option(
    "DIR", "Directory for the source.", kind=path_types.Named(), name="directory", required=True
)
@pytorch_option
@params.remote_options
@params.without_option
@click.option("--all", "everything", is_flag=True, help="Also fetch submodules left out before.")
@json_option
def source(
    *,
    directory: str,
    pytorch: str | None,
    remotes: Remotes,
    without: tuple[str, ...],
    everything: bool,
    as_json: bool,
) -> None:
    """Fetch the pinned commit of PyTorch with all its submodules, and verify it.

    Continues where an interrupted run stopped. An existing tree is verified and not changed, but
    missing submodules are added, except those that were left out before.
    """
    from patchgen.core import source as sources
    from patchgen.core.source.request import SourceRequest

    known, named = known_pins(pytorch)
    default = pins.find(pins.DEFAULT, known)
    pin = named or sources.choose_pin(directory, known, default)
    wanted = SourceRequest(pin, without, everything, remotes)
    with progress():
        tree = sources.obtain(paths.from_native(directory), wanted)
    if as_json:
        print_json(_data(tree))
    else:
        say(_line(tree))


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
