"""pins: the PyTorch commits that can be patched, and tools for a maintainer to add more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, completing, print_result, progress, say
from patchgen.cli.params import json_option
from patchgen.core.patch import pins as known
from patchgen.core.patch import report
from patchgen.errors import TreeError, file_errors
from patchgen.system import files, paths

if TYPE_CHECKING:
    from patchgen.core.patch.pins import Pin
    from patchgen.core.source.remotes import Remotes

_LOGGER = logging.getLogger(__name__)


@click.group(cls=Group, invoke_without_command=True)
@json_option
def pins(*, as_json: bool) -> None:
    """List the PyTorch commits that can be patched."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    shipped = known.shipped()
    lines = [
        f"{pin.name}  {pin.commit}  {', '.join(file.path for file in pin.files)}" for pin in shipped
    ]
    print_result(lines, [report.pin_data(pin) for pin in shipped], as_json=as_json)


@pins.command(cls=Command)
@click.argument("tree", type=path_types.Named())
@click.option(
    "--layout",
    required=True,
    metavar="NAME",
    shell_complete=completing(lambda: known.by_layout(known.shipped())),
    help="Layout of a known pin, or a pin file (*.json) with the layout.",
)
@click.option(
    "--name",
    required=True,
    type=path_types.Named(),
    metavar="NAME",
    help="Name of the pin, such as v1.7.1.",
)
@click.option("--commit", required=True, metavar="ID", help="Commit of the pin, all 40 digits.")
@path_types.output_option("FILE", "File to write. [default: stdout]", kind=path_types.OUTPUT_FILE)
def make(tree: str, layout: str, name: str, commit: str, output: str | None) -> None:
    """Make a pin from an unpatched checkout."""
    from patchgen.core.patch import pinning

    like = known.of_layout(layout, known.shipped())
    place = paths.from_native(tree)
    pinning.check_commit(place, commit)
    pin = pinning.make(place, like, name, commit)
    serving = known.serving(pin.files, known.shipped())
    if serving:
        say(report.serving_line(pin, serving))
    if output is None:
        click.echo(known.to_json(pin), nl=False)
        return
    _write(pin, output)
    say(f"{output}: {pin.name}, {len(pin.files)} files")


@pins.command(cls=Command)
@params.remote_options
@params.cache_option
def refresh(remotes: Remotes, cache: str | None) -> None:
    """Update the shipped pins after a change of a hook, an anchor or a commit.

    Reads the hooked files from the cache, a mirror or the network. Writes nothing if an anchor no
    longer matches exactly once, and shows the lines around it before and now.
    """
    from patchgen.core.patch import pinning
    from patchgen.core.source.commit import open_pinned

    directory = params.cache(cache)
    made, drifted = [], []
    with progress(), file_errors():
        for pin in known.read_shipped():
            _LOGGER.info("getting %d files of PyTorch %s", len(pin.anchored), pin.name)
            contents = open_pinned(pin, directory, remotes).read(pin.anchored)
            try:
                made.append((pin, pinning.remake(pin, contents)))
            except TreeError as error:
                drifted.append(f"{pin.name}:\n{error}")
    if drifted:
        raise TreeError("\n".join(drifted))
    for old, new in made:
        if new != old:
            _write(new, known.path_of(new))
        say(f"{new.name}: {'as it was' if new == old else 'made again'}")


def _write(pin: Pin, path: str) -> None:
    with file_errors():
        files.replace(paths.encode(paths.from_native(path)), known.to_json(pin).encode("ascii"))
