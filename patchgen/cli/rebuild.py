"""rebuild: the same bytes again, from their provenance alone."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.compare import show
from patchgen.cli.console import Command, data, option, print_json, progress, say, show_checks
from patchgen.errors import CheckError
from patchgen.system import paths, tables

if TYPE_CHECKING:
    from patchgen.cli.params import Sources
    from patchgen.core.wheel.rebuild import Outcome, Site, Target

_OUTPUT = "rebuilt"
_WHEEL_WORK = "/var/tmp/switchml-patch/rebuild"  # noqa: S108  # survives a reboot; not secret


@dataclass(frozen=True)
class _Rebuild:
    """Request of `rebuild`."""

    target: str
    record: str | None
    work: str | None
    output: str
    interpreter: str | None
    lock_file: str | None
    pytorch: str | None
    source: str | None
    places: Sources
    cache: str | None
    dry_run: bool
    as_json: bool


@click.command(cls=Command)
@click.argument("target", metavar="FILE|HOME", type=click.Path())
@click.option(
    "--provenance",
    "record",
    type=path_types.Named(),
    metavar="FILE",
    help="Provenance of it. [default: the one beside it]",
)
@option(
    "--work",
    group="Places",
    type=path_types.OUTPUT_DIRECTORY,
    metavar="DIR",
    help=f"Directory to build in. [default: {_WHEEL_WORK} for PyTorch, else a temporary one]",
)
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_DIRECTORY,
    default=_OUTPUT,
    metavar="DIR",
    help=f"Directory for what is made again, and the attestation. [default: {_OUTPUT}]",
)
@click.option(
    "--python",
    "interpreter",
    type=path_types.Named(),
    metavar="PYTHON",
    help="Interpreter that builds, or has the torch. [default: the recorded one]",
)
@option(
    "--lock", "lock_file", group="Places", type=path_types.Named(), metavar="FILE",
    help=f"Lock of the environment. [default: {params.LOCK} beside the wheel, or here]",
)  # fmt: skip
@option(
    "--pytorch",
    group="Source",
    metavar="PIN",
    help="Pin of the source if it is not a shipped one. [default: the recorded one]",
)
@option(
    "--source",
    group="Source",
    type=click.Path(exists=True, file_okay=False),
    metavar="TREE",
    help="Source of the torch of a graft. [default: fetch the files that are needed]",
)
@params.place_options
@params.cache_option
@click.option("--dry-run", is_flag=True, help="Print what it needs and lacks, and do nothing.")
@params.json_option
@params.into(_Rebuild)
def rebuild(request: _Rebuild) -> None:
    """Makes a file again from its provenance, and compares the bytes.

    It takes wheels of PyTorch and of the plugin, grafts, client libraries and homes of these. Exit
    code 0 where the bytes are identical, else 6, also where something that is needed is not here.
    """
    from patchgen.core.wheel import rebuild as again  # no other command needs it

    target = again.find(request.target, request.record, tuple(again.KINDS))
    output = os.path.abspath(request.output)
    again.check_output(target, output)
    with progress():
        site = _site(request, target)
        checks = again.find_needs(target, site)
        lacking = [check for check in checks if check.required and not check.ok]
        ends = request.dry_run or bool(lacking)
        if ends or not request.as_json:
            show_checks(checks, as_json=request.as_json)
        if ends:
            return
        outcome = again.rebuild(target, site, output)
    if request.as_json:
        differences = [{**asdict(one), "kind": one.kind.value} for one in outcome.differences]
        print_json(
            {
                "identical": not differences,
                "rebuilt": outcome.made,
                "attestation": outcome.attestation,
                "differences": differences,
                "causes": [asdict(one) for one in outcome.causes],
                "checks": [data(check) for check in checks],
            }
        )
    else:
        _show(outcome)
    if outcome.differences:
        click.get_current_context().exit(CheckError.exit_code)


def _show(outcome: Outcome) -> None:
    from patchgen.core.wheel.rebuild import diffoscope

    say(f"rebuilt {outcome.made}")
    show([*outcome.differences])
    if outcome.attestation:
        say(f"wrote {outcome.attestation}; sign it with cosign attest-blob")
    if outcome.causes:
        rows = [
            (one.name, *(paths.printable(text or "-") for text in (one.left, one.right)))
            for one in outcome.causes
        ]
        for line in tables.lines(("recorded value", "A", "B"), rows, words=3):
            click.echo(line)
    if outcome.pairs:
        with progress():
            for line in diffoscope.describe(outcome.pairs, os.environ):
                click.echo(line)


def _site(request: _Rebuild, target: Target) -> Site:
    from patchgen.core.wheel import provenance
    from patchgen.core.wheel.rebuild import Site
    from patchgen.system.interpreter import locate

    known, wanted = params.known_pins(request.pytorch)
    beside = os.path.join(os.path.dirname(target.path), params.LOCK)
    lock = request.lock_file or (beside if os.path.exists(beside) else params.LOCK)
    whole = target.provenance.kind == provenance.KIND
    return Site(
        work=os.path.abspath(request.work or (_WHEEL_WORK if whole else tempfile.gettempdir())),
        cache=params.cache(request.cache),
        environ=dict(os.environ),
        pins=known if wanted is None else (wanted, *known),
        pytorch=request.pytorch,
        python=locate(request.interpreter) if request.interpreter else None,
        lock=os.path.abspath(lock),
        source=os.path.abspath(request.source) if request.source else None,
        places=request.places.find(),
    )
