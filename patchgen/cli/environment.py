"""env: the conda environment that PyTorch is built in, without conda.

All but click is imported by the commands: conda-lock and py-rattler are heavy, and optional.
"""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli import places
from patchgen.cli.checking import show
from patchgen.cli.common import json_option, say
from patchgen.cli.progress import progress


@click.group()
def env() -> None:
    """The conda environment of the build; no conda is needed."""


@env.command()
@click.option(
    "-f",
    "--file",
    "source",
    type=click.Path(),
    default="environment.yml",
    metavar="FILE",
    help="The environment file. [default: environment.yml]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default=places.LOCK,
    metavar="FILE",
    help=f"The lock. [default: {places.LOCK}]",
)
@click.option(
    "--platform", default="linux-64", metavar="NAME", help="Of the packages. [default: linux-64]"
)
@click.option(
    "--channel",
    "channels",
    multiple=True,
    metavar="CHANNEL",
    help="Instead of the file's, in order of priority: a name, a URL, or NAME=URL for a mirror.",
)
@click.option(
    "--conda",
    "program",
    metavar="PROGRAM",
    help="Let this conda, mamba or micromamba solve, instead of py-rattler.",
)
@click.option(
    "--virtual",
    default="",
    metavar="LIST",
    help="What to assume about the machine, as glibc=2.17,cuda=10.1; over what the file says.",
)
@places.cache_option
def lock(source: str, output: str, cache: str | None, **given: Any) -> None:  # noqa: ANN401
    """Solves an environment file and writes every package with its hashes."""
    _require()
    from patchgen.conda import lock as locking  # noqa: PLC0415

    with progress() as report:
        made = locking.make(source, output, cache=places.cache(cache), report=report, **given)
    say(f"{output}: {len(made.packages)} packages for {made.platform}")


@env.command()
@click.argument("prefix", type=click.Path())
@places.lock_option
@click.option(
    "--link-scripts/--no-link-scripts",
    default=True,
    help="Run the post-link scripts that the environment file allows; no other ever runs.",
)
@places.cache_option
def create(prefix: str, lock_file: str, cache: str | None, *, link_scripts: bool) -> None:
    """Makes a prefix from the lock, or finishes a half made one. Checks every hash."""
    _require()
    from patchgen.conda import create as creating  # noqa: PLC0415
    from patchgen.conda import lockfile  # noqa: PLC0415

    with progress() as report:
        read = lockfile.read(lock_file)
        stale = lockfile.stale(read, lock_file)
        if stale:
            report(f"warning: {stale}")
        creating.create(read, prefix, places.cache(cache), link_scripts=link_scripts, report=report)
    say(f"{prefix}: {len(read.packages)} packages")


@env.command()
@click.argument("prefix", type=click.Path())
@places.lock_option
@click.option("--contents", is_flag=True, help="Also compare the hash of every file.")
@json_option
def verify(prefix: str, lock_file: str, *, contents: bool, as_json: bool) -> None:
    """Compares a prefix with the lock. Exits with 0 only if all holds, else with 6."""
    _require()
    from patchgen.conda import lockfile  # noqa: PLC0415
    from patchgen.conda import verify as verifying  # noqa: PLC0415

    checks = verifying.verify(lockfile.read(lock_file), lock_file, prefix, contents=contents)
    show(checks, as_json=as_json, prefix=prefix)


def _require() -> None:
    from patchgen import conda  # noqa: PLC0415

    conda.require()
