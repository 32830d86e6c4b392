"""env: the conda environment that PyTorch is built in, without conda.

All but click is imported by the commands: conda-lock and py-rattler are heavy, and optional.
"""

from __future__ import annotations

import os

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, progress, say


@click.group(cls=Group)
def env() -> None:
    """The conda environment of the build; no conda is needed."""


@env.command(cls=Command)
@click.option(
    "-f",
    "--file",
    "source",
    type=click.Path(),
    default=params.ENVIRONMENT,
    metavar="FILE",
    help="Environment file, of this directory or of the tool: environment.yml is for CUDA 10.1, "
    f"environment-cpu.yml for no CUDA. [default: {params.ENVIRONMENT}]",
)
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_FILE,
    default=params.LOCK,
    metavar="FILE",
    help=f"Lock to write. [default: {params.LOCK}]",
)
@click.option(
    "--platform",
    default="linux-64",
    metavar="NAME",
    help="Platform of the packages. [default: linux-64]",
)
@click.option(
    "--channel",
    "channels",
    multiple=True,
    metavar="CHANNEL",
    help="Channel to use instead of the file's: a name, a URL, or NAME=URL for a mirror. May be "
    "repeated, the most important first.",
)
@params.cache_option
def lock(
    source: str, output: str, platform: str, channels: tuple[str, ...], cache: str | None
) -> None:
    """Solves an environment file and writes every package with its hashes."""
    _require()
    from patchgen.core.wheel import env as conda
    from patchgen.core.wheel.env import locking

    with progress():
        made = locking.make_lock(
            conda.locate(source, os.getcwd()),
            output,
            platform=platform,
            channels=channels,
            cache=params.cache(cache),
        )
    say(f"{output}: {len(made.packages)} packages for {made.platform}")


@env.command(cls=Command)
@click.option(
    "-o",
    "--output",
    "prefix",
    type=path_types.OUTPUT_DIRECTORY,
    required=True,
    metavar="PREFIX",
    help="Directory of the environment.",
)
@params.lock_option
@params.cache_option
def create(prefix: str, lock_file: str, cache: str | None) -> None:
    """Makes a prefix from the lock, or finishes a half made one. Checks every hash.

    Only those post-link scripts run that the environment file allows.
    """
    _require()
    from patchgen.core.wheel.env import lockfile
    from patchgen.core.wheel.env import prefix as prefixes

    with progress():
        read = lockfile.read(lock_file)
        stale = lockfile.stale(read, lock_file)
        if stale:
            say(f"warning: {stale}")
        prefixes.create_prefix(read, prefix, params.cache(cache), os.environ)
    say(f"{prefix}: {len(read.packages)} packages")


def _require() -> None:
    from patchgen.core.wheel import env as conda

    conda.require()
