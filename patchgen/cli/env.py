"""env: the conda environment that PyTorch is built in, made without conda.

The commands import conda-lock and py-rattler, which are heavy and optional.
"""

from __future__ import annotations

import os

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, progress, say


@click.group(cls=Group)
def env() -> None:
    """Lock or create the conda environment of the build; conda is not needed."""


@env.command(cls=Command)
@click.option(
    "-f",
    "--file",
    "source",
    type=path_types.Named(),
    default=params.ENVIRONMENT_FILE,
    metavar="FILE",
    help="Environment file, in this directory or shipped with the tool: environment.yml has CUDA "
    f"10.1, environment-cpu.yml no CUDA. [default: {params.ENVIRONMENT_FILE}]",
)
@path_types.output_option(
    "FILE",
    f"Lock file to write. [default: {params.LOCK}]",
    kind=path_types.OUTPUT_FILE,
    default=params.LOCK,
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
    help="Channel to use instead of the file's channels: a name, a URL, or NAME=URL for a mirror. "
    "May be repeated, the most important first.",
)
@params.cache_option
def lock(
    source: str, output: str, platform: str, channels: tuple[str, ...], cache: str | None
) -> None:
    """Solve an environment file, and write a lock of every package with its hashes."""
    from patchgen.core.wheel import conda

    conda.require()
    from patchgen.core.wheel.conda import locking

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
@path_types.output_option("PREFIX", "Directory of the environment.", name="prefix", required=True)
@params.lock_option
@params.cache_option
def create(prefix: str, lock_file: str, cache: str | None) -> None:
    """Create an environment from the lock, anew if it is incomplete.

    Checks every hash. Runs only the post-link scripts that the environment file allows, and
    requires the files that it names.
    """
    from patchgen.core.wheel import conda

    conda.require()
    from patchgen.core.wheel.conda import lockfile
    from patchgen.core.wheel.conda import prefix as prefixes

    with progress():
        read = lockfile.read(lock_file)
        stale = lockfile.stale(read, lock_file)
        if stale:
            say(f"warning: {stale}")
        prefixes.create_prefix(read, prefix, params.cache(cache), os.environ)
    say(f"{prefix}: {len(read.packages)} packages")
