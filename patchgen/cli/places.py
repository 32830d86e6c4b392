"""Options of several commands that say where things come from and where they are made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from patchgen.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.pins import Pin
    from patchgen.sources import Places

LOCK = "conda-lock.yml"


class _Named(click.Path):
    """A path that is not empty, as that of a variable of a script that was not set."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401  # as in click
        """Refuses what names nothing."""
        if not value:
            self.fail("it is empty; name one, or drop the option", param, ctx)
        return super().convert(value, param, ctx)


work_option = click.option(
    "--work",
    type=_Named(),
    metavar="DIR",
    help="Source, environment and objects. Its path is part of what is built: keep it to get the "
    "same wheel. [default: /var/tmp/switchml-patch/VERSION]",
)
python_option = click.option(
    "--python",
    "interpreter",
    type=_Named(),
    metavar="PYTHON",
    help="Build with this interpreter and the compiler on PATH, without conda.",
)
lock_option = click.option(
    "--lock",
    "lock_file",
    type=_Named(),
    default=LOCK,
    metavar="FILE",
    help=f"Of the environment, as env lock wrote it. [default: {LOCK}]",
)
cache_option = click.option(
    "--cache",
    type=_Named(),
    metavar="DIR",
    help="Of what is downloaded or built and used again. [default: switchml-patch under ~/.cache]",
)
config_option = click.option(
    "--config",
    "configs",
    type=click.Path(exists=True, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="A switchml.cfg of yours, once for each rank that verifies. [default: two ranks, with the "
    "simulator or the dummy backend]",
)
_mirror_option = click.option(
    "--mirror",
    "mirrors",
    multiple=True,
    metavar="URL|PATH",
    help="Looked at before the network: a directory of clones or bundles named OWNER+NAME or NAME, "
    "a clone, a bundle, or a base URL. May be repeated.",
)
_reference_option = click.option(
    "--reference",
    "references",
    multiple=True,
    type=click.Path(),
    metavar="PATH",
    help="A clone of PyTorch whose objects, and those of its submodules, are copied.",
)


def source_options(command: Any) -> Any:  # noqa: ANN401  # as in click
    """Where the source is looked for before the network: --mirror and --reference."""
    return _mirror_option(_reference_option(command))


def directory() -> str:
    """The current one.

    Raises:
        OptionsError: it was removed.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise OptionsError("the current directory no longer exists; change to another") from None


def work(given: str | None, pin: Pin) -> str:
    """The absolute path of the directory to build in."""
    from patchgen import preflight  # noqa: PLC0415  # no other command needs it

    return os.path.normpath(os.path.join(directory(), given or preflight.default_work(pin)))


def cache(given: str | None) -> str:
    """The absolute path of the store of packages."""
    if given is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        given = os.path.join(base, "switchml-patch")
    return os.path.normpath(os.path.join(directory(), given))


def sources(mirrors: Sequence[str], references: Sequence[str]) -> Places:
    """Where the source is looked for.

    Raises:
        OptionsError: one of them is not there.
    """
    from patchgen.sources import Places, addresses  # noqa: PLC0415  # no other command needs it

    return Places(
        [addresses.checked(mirror) for mirror in mirrors],
        [addresses.checked_reference(reference) for reference in references],
    )
