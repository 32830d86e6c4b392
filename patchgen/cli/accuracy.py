"""accuracy: how far SwitchML's sums are from exact ones, beside what else could be used."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli import path_types
from patchgen.cli.console import Command, print_json, progress, say
from patchgen.cli.params import json_option
from patchgen.errors import OptionsError

if TYPE_CHECKING:
    from patchgen.accuracy.methods import Method
    from patchgen.accuracy.tensors import Tensors

_MOST = 0xFFFF  # workers: what num_workers holds
_WORKERS = 8
_NUMEL = 1_000_000
_NAMES = ("normal", "uniform", "laplace", "lognormal")
_LONG = 2**28  # values of all workers: beyond, it is shown how many are done


@click.command(cls=Command)
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
@click.option(
    "--workers",
    type=click.IntRange(1, _MOST),
    metavar="N",
    help=f"Workers that sum. [default: what the files hold, else {_WORKERS}]",
)
@click.option(
    "--copies",
    type=click.IntRange(1, _MOST),
    metavar="N",
    help="Take FILE as the tensor of one worker, and give it to N workers.",
)
@click.option(
    "--distribution",
    type=click.Choice(_NAMES),
    help="Distribution of the values if no FILE is given. [default: normal]",
)
@click.option("--scale", type=float, metavar="X", help="Factor of these values. [default: 1]")
@click.option(
    "--numel",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Elements of each worker. [default: {_NUMEL}]",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Seed of all random numbers. [default: 0]",
)
@click.option(
    "--packet-numel",
    type=click.IntRange(min=1),
    default=256,
    metavar="N",
    help="Elements that share an exponent: packet_numel of switchml.cfg, or msg_numel with the "
    "RDMA backend. [default: 256]",
)
@click.option(
    "--num-worker-threads",
    "threads",
    type=click.IntRange(1, _MOST),
    default=4,
    metavar="N",
    help="Threads, as num_worker_threads of switchml.cfg. [default: 4]",
)
@click.option(
    "--bits",
    type=click.IntRange(1, 8),
    multiple=True,
    default=(8, 4, 2),
    metavar="N",
    help="Bits of a value; may be repeated. [default: 8, 4 and 2]",
)
@click.option(
    "--bucket-numel",
    type=click.IntRange(min=1),
    default=512,
    metavar="N",
    help="Elements of a bucket. [default: 512]",
)
@click.option("--skip-incomplete", is_flag=True, help="Do not quantize an incomplete bucket.")
@click.option(
    "--requantize/--no-requantize",
    default=True,
    help="Quantize the sums as well, but for those of SwitchML. [default: yes]",
)
@click.option("--stochastic", is_flag=True, help="Round up or down at random.")
@click.option(
    "--plot", type=path_types.OUTPUT_FILE, metavar="FILE.png", help="Picture of what was measured."
)
@json_option
def accuracy(
    files: tuple[str, ...],
    plot: str | None,
    *,
    as_json: bool,
    **given: Any,  # the other options
) -> None:
    """Measures how far SwitchML's sums are from exact ones.

    Beside it: the plugin's sums in fewer bits, float32 as Gloo adds it, and bucketed max-min
    quantization as gradient compression uses it. FILE is a .npy, .npz or raw .bin, .f32 or .raw of
    floats whose first axis counts the workers, or one for each worker. Without it, values of a
    distribution are summed.
    """
    from patchgen import plots  # no other command needs them
    from patchgen.system import extras  # no other command needs them

    extras.require({"numpy": "numpy"})
    if plot is not None:
        plots.check(plot)
    from patchgen.accuracy import figure, report  # imports numpy
    from patchgen.accuracy.measure import measure

    tensors = _tensors(files, given)
    values = tensors.workers * tensors.numel
    with progress() as step:
        measured = measure(
            tensors,
            _methods(tensors.workers, given),
            step,
            step.count if values > _LONG else lambda _done, _all: None,
        )
    if as_json:
        print_json(report.data(tensors, measured))
    else:
        for line in report.lines(tensors, measured):
            click.echo(line)
    if plot is not None:
        figure.write(plot, tensors, measured)
        say(f"wrote {plot}")


def _tensors(files: tuple[str, ...], given: dict[str, Any]) -> Tensors:
    from patchgen.accuracy import distributions, tensors  # imports numpy

    workers, copies = given["workers"], given["copies"]
    if files:
        for name in ("distribution", "scale", "numel"):
            if given[name] is not None:
                raise OptionsError(f"--{name} is for random values, and there is a file; drop one")
        if workers is not None and copies is not None:
            raise OptionsError("--workers and --copies: give one of them")
        return tensors.load(files, workers, copies)
    if copies is not None:
        raise OptionsError("--copies is for a file, and there is none; give --workers")
    scale = 1.0 if given["scale"] is None else given["scale"]
    if not 0 < scale < math.inf:
        raise OptionsError(f"--scale {scale}: give a number above 0")
    return distributions.Random(
        given["distribution"] or _NAMES[0],
        scale,
        given["seed"],
        workers or _WORKERS,
        given["numel"] or _NUMEL,
    )


def _methods(workers: int, given: dict[str, Any]) -> list[Method]:
    from patchgen.accuracy.buckets import Buckets  # imports numpy
    from patchgen.accuracy.fixed_point import FixedPoint
    from patchgen.accuracy.lanes import Lanes
    from patchgen.accuracy.methods import Float32

    names = ("bucket_numel", "skip_incomplete", "stochastic", "seed")
    buckets = {name: given[name] for name in names}
    methods: list[Method] = [
        FixedPoint(workers, given["packet_numel"], given["threads"]),
        Float32(workers),
    ]
    for bits in dict.fromkeys(given["bits"]):
        methods += [
            Lanes(workers, bits, **buckets),
            Buckets(workers, bits, **buckets, requantize=given["requantize"]),
        ]
    return methods
