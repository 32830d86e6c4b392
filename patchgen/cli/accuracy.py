"""accuracy: the error of SwitchML's sums, beside the error of float32."""

from __future__ import annotations

import click

from patchgen.cli import path_types
from patchgen.cli.console import Command, option, print_result, progress
from patchgen.cli.params import json_option
from patchgen.errors import OptionsError

_MOST = 0xFFFF  # workers: what num_workers holds
_WORKERS = 8
_NUMEL = 1_000_000


@click.command(cls=Command)
@click.argument("files", nargs=-1, metavar="[FILE]...", type=path_types.Named())
@click.option(
    "--workers",
    type=click.IntRange(1, _MOST),
    metavar="N",
    help=f"Number of workers that sum random values. [default: {_WORKERS}]",
)
@option(
    "--numel",
    group="Values",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Number of elements of each worker. [default: {_NUMEL}]",
)
@option(
    "--seed",
    group="Values",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Seed of all random numbers. [default: 0]",
)
@option(
    "--packet-numel",
    group="SwitchML",
    type=click.IntRange(min=1),
    default=256,
    metavar="N",
    help="Number of elements that share an exponent: packet_numel of switchml.cfg, or msg_numel "
    "with the RDMA backend. [default: 256]",
)
@option(
    "--num-worker-threads",
    "threads",
    group="SwitchML",
    type=click.IntRange(1, _MOST),
    default=4,
    metavar="N",
    help="Number of threads: num_worker_threads of switchml.cfg. [default: 4]",
)
@json_option
def accuracy(
    *,
    files: tuple[str, ...],
    workers: int | None,
    numel: int | None,
    seed: int,
    packet_numel: int,
    threads: int,
    as_json: bool,
) -> None:
    """Measure the errors of SwitchML's sums, and of float32 sums as Gloo adds them.

    FILE is a .npy of floats whose first axis counts the workers, or there is one FILE for each
    worker. Without FILE, random values are summed.
    """
    from patchgen.system import dependencies

    dependencies.require({"numpy": "numpy"})
    from patchgen.extras.accuracy import measure, tensors  # they import numpy
    from patchgen.extras.accuracy.fixed_point import FixedPoint
    from patchgen.extras.accuracy.methods import Float32

    if files:
        for name, given in {"workers": workers, "numel": numel}.items():
            if given is not None:
                raise OptionsError(f"--{name} is for random values, and there is a file; drop one")
    values: tensors.Tensors = (
        tensors.load(files) if files else tensors.Random(seed, workers or _WORKERS, numel or _NUMEL)
    )
    methods: list[measure.Method] = [
        FixedPoint(values.workers, packet_numel, threads), Float32(values.workers)
    ]  # fmt: skip
    with progress():
        measured = measure.measure(values, methods)
    lines, data = measure.lines(values, measured), measure.data(values, measured)
    print_result(lines, data, as_json=as_json)
