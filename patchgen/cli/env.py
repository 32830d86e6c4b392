"""env: the conda environment that PyTorch is built in, without conda.

All but click is imported by the commands: conda-lock and py-rattler are heavy, and optional.
"""

from __future__ import annotations

import os
from typing import Any

import click

from patchgen.cli import deprecated, params, path_types
from patchgen.cli.console import Command, Group, progress, say, show_checks
from patchgen.cli.params import json_option


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
@click.option(
    "--conda",
    "program",
    metavar="PROGRAM",
    help="Solve with this conda, mamba or micromamba instead of py-rattler.",
)
@click.option(
    "--virtual",
    default="",
    metavar="LIST",
    help="Virtual packages of the machine, such as glibc=2.17,cuda=10.1. Overrides the file.",
)
@params.cache_option
def lock(source: str, output: str, cache: str | None, **given: Any) -> None:
    """Solves an environment file and writes every package with its hashes."""
    _require()
    from patchgen.wheel import env as conda
    from patchgen.wheel.env import locking

    with progress():
        source = conda.locate(source, os.getcwd())
        made = locking.make_lock(
            source, output, cache=params.cache(cache), environ=os.environ, **given
        )
    say(f"{output}: {len(made.packages)} packages for {made.platform}")


@env.command(cls=Command)
@deprecated.argument("prefix", "PREFIX", required=True, type=path_types.OUTPUT_DIRECTORY)
@click.option(
    "-o",
    "--output",
    "prefix",
    type=path_types.OUTPUT_DIRECTORY,
    metavar="PREFIX",
    help="Directory of the environment. [required]",
)
@params.lock_option
@click.option(
    "--link-scripts/--no-link-scripts",
    default=True,
    help="Run the post-link scripts that the environment file allows; no other ever runs.",
)
@params.cache_option
def create(prefix: str, lock_file: str, cache: str | None, *, link_scripts: bool) -> None:
    """Makes a prefix from the lock, or finishes a half made one. Checks every hash."""
    _require()
    from patchgen.wheel.env import lockfile
    from patchgen.wheel.env import prefix as prefixes

    with progress():
        read = lockfile.read(lock_file)
        stale = lockfile.stale(read, lock_file)
        if stale:
            say(f"warning: {stale}")
        prefixes.create_prefix(
            read, prefix, params.cache(cache), os.environ, link_scripts=link_scripts
        )
    say(f"{prefix}: {len(read.packages)} packages")


@env.command(cls=Command)
@click.argument("prefix", type=click.Path())
@params.lock_option
@click.option("--contents", is_flag=True, help="Also compare the hash of every file.")
@json_option
def verify(prefix: str, lock_file: str, *, contents: bool, as_json: bool) -> None:
    """Compares a prefix with the lock. Exits with 0 only if all holds, else with 6."""
    _require()
    from patchgen.wheel.env import comparison, lockfile

    checks = comparison.compare_prefix(
        lockfile.read(lock_file), lock_file, prefix, contents=contents
    )
    show_checks(checks, as_json=as_json, prefix=prefix)


def _require() -> None:
    from patchgen.wheel import env as conda

    conda.require()
