"""rebuild: the same bytes again, from the provenance."""

from __future__ import annotations

import os
import shlex
import tempfile
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.compare import show
from patchgen.cli.console import Command, data, end, option, print_json, progress, say, show_checks
from patchgen.errors import CheckError

if TYPE_CHECKING:
    from patchgen.core.source.remotes import Remotes
    from patchgen.core.wheel.rebuild import Kinds

_OUTPUT = "rebuilt"
_WHEEL_WORK = f"{params.WORK}/rebuild"


@click.command(cls=Command)
@click.argument("target", metavar="FILE|HOME", type=path_types.Named())
@click.option(
    "--provenance",
    "record",
    type=path_types.Named(),
    metavar="FILE",
    help="Provenance of FILE. [default: the one beside FILE]",
)
@option(
    "--work",
    group=params.PATHS,
    type=path_types.OUTPUT_DIRECTORY,
    metavar="DIR",
    help=f"Directory to build in. [default: {_WHEEL_WORK} for PyTorch, else a temporary one]",
)
@path_types.output_option(
    "DIR",
    f"Directory for the rebuilt file and the attestation. [default: {_OUTPUT}]",
    default=_OUTPUT,
)
@click.option(
    "--python",
    "interpreter",
    type=path_types.Named(),
    metavar="PYTHON",
    help="Interpreter that builds, or whose torch is used. [default: the recorded one]",
)
@option(
    "--lock", "lock_file", group=params.PATHS, type=path_types.Named(), metavar="FILE",
    help=f"Lock file of the environment. [default: {params.LOCK} beside the wheel, or here]",
)  # fmt: skip
@option(
    "--pytorch",
    group="Source",
    type=path_types.Named(),
    metavar="PIN",
    help="Pin of the source if it is not shipped. [default: the recorded one]",
)
@option(
    "--source",
    group="Source",
    type=path_types.Named(exists=True, file_okay=False),
    metavar="TREE",
    help="PyTorch source for a graft. [default: fetch the files that are needed]",
)
@params.remote_options
@params.cache_option
@click.option("--dry-run", is_flag=True, help="Print missing requirements, and build nothing.")
@params.json_option
def rebuild(
    *,
    target: str,
    record: str | None,
    work: str | None,
    output: str,
    interpreter: str | None,
    lock_file: str | None,
    pytorch: str | None,
    source: str | None,
    remotes: Remotes,
    cache: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Rebuild a file from its provenance, and compare the bytes.

    FILE is a wheel of PyTorch or of the plugin, a graft or a client library. HOME is where a client
    library is installed. Exits with 0 if the bytes are identical, else with 6, also if a
    requirement is missing.
    """
    from patchgen.core.wheel import provenance
    from patchgen.core.wheel import rebuild as again
    from patchgen.system.interpreter import locate

    kinds = _list_kinds()
    original = again.find(target, record, kinds)
    output = os.path.abspath(output)
    again.check_output(original, output)
    known, wanted = params.known_pins(pytorch)
    beside = os.path.join(os.path.dirname(original.path), params.LOCK)
    lock = lock_file or (beside if os.path.exists(beside) else params.LOCK)
    whole = original.provenance.kind == provenance.KIND
    request = again.RebuildRequest(
        work=os.path.abspath(work or (_WHEEL_WORK if whole else tempfile.gettempdir())),
        cache=params.cache(cache),
        environ=dict(os.environ),
        pins=known if wanted is None else (wanted, *known),
        python=locate(interpreter) if interpreter else None,
        lock=os.path.abspath(lock),
        source=os.path.abspath(source) if source else None,
        remotes=remotes,
    )
    with progress():
        missing = again.find_missing(original, kinds, request)
        ends = dry_run or any(one.required for one in missing)
        if ends or not as_json:
            show_checks(missing, as_json=as_json)
        if not missing and not as_json:
            say("all recorded requirements of the build are here")
        if ends:
            return
        outcome = again.rebuild(original, kinds, request, output)
    if as_json:
        differences = [{**asdict(one), "kind": one.kind.value} for one in outcome.differences]
        print_json(
            {
                "identical": not differences,
                "rebuilt": outcome.made,
                "attestation": outcome.attestation,
                "differences": differences,
                "checks": [data(one) for one in missing],
            }
        )
    else:
        say(f"rebuilt {outcome.made}")
        show([*outcome.differences])
        if outcome.attestation:
            say(f"wrote {outcome.attestation}; sign it with cosign attest-blob")
        else:
            say(f"see why with: {shlex.join(['diffoscope', original.path, outcome.made])}")
    if outcome.differences:
        end(CheckError.exit_code)


def _list_kinds() -> Kinds:
    """Return the readers of provenance, by the kind of what was built."""
    from patchgen.core.library import origin
    from patchgen.core.wheel import provenance
    from patchgen.core.wheel.rebuild import pytorch
    from patchgen.extras.client import rebuild_client
    from patchgen.extras.install import provenance as installed
    from patchgen.extras.install import rebuild_plugin_and_graft
    from patchgen.extras.lab import rebuild_simulator

    return {
        origin.CLIENT: rebuild_client.read_client,
        origin.SIMULATOR: rebuild_simulator.read_simulator,
        installed.PLUGIN: rebuild_plugin_and_graft.read_plugin,
        installed.GRAFT: rebuild_plugin_and_graft.read_graft,
        provenance.KIND: pytorch.read,
    }
