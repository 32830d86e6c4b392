"""accuracy: how far SwitchML's sums are from exact ones, beside what else could be used."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli import path_types
from patchgen.cli.console import Command, option, print_json, progress, say
from patchgen.cli.params import gather, into, json_option
from patchgen.errors import OptionsError

if TYPE_CHECKING:
    from patchgen.extras.accuracy.methods import Method
    from patchgen.extras.accuracy.tensors import Tensors

_MOST = 0xFFFF  # workers: what num_workers holds
_WORKERS = 8
_NUMEL = 1_000_000
_NAMES = ("normal", "uniform", "laplace", "lognormal")


@dataclass(frozen=True)
class _Values:
    """Values to sum: of files, or random ones."""

    files: tuple[str, ...]
    workers: int | None
    copies: int | None
    distribution: str | None
    scale: float | None
    numel: int | None
    seed: int

    def read(self) -> Tensors:
        """Loads the files, or makes random values.

        Raises:
            OptionsError: two options contradict each other, or a file cannot be taken.
        """
        from patchgen.extras.accuracy import tensors  # imports numpy

        if self.files:
            for name in ("distribution", "scale", "numel"):
                if getattr(self, name) is not None:
                    raise OptionsError(
                        f"--{name} is for random values, and there is a file; drop one"
                    )
            if self.workers is not None and self.copies is not None:
                raise OptionsError("--workers and --copies: give one of them")
            return tensors.load(self.files, self.workers, self.copies)
        if self.copies is not None:
            raise OptionsError("--copies is for a file, and there is none; give --workers")
        scale = 1.0 if self.scale is None else self.scale
        if not 0 < scale < math.inf:
            raise OptionsError(f"--scale {scale}: give a number above 0")
        return tensors.Random(
            self.distribution or _NAMES[0],
            scale,
            self.seed,
            self.workers or _WORKERS,
            self.numel or _NUMEL,
        )


@dataclass(frozen=True)
class _Request:
    """Request of `accuracy`."""

    values: _Values
    packet_numel: int
    threads: int
    bits: tuple[int, ...]
    bucket_numel: int
    skip_incomplete: bool
    requantize: bool
    stochastic: bool
    plot: str | None
    as_json: bool

    def methods(self, workers: int) -> list[Method]:
        """Lists the ways to sum that are compared."""
        from patchgen.extras.accuracy.buckets import Buckets  # imports numpy
        from patchgen.extras.accuracy.fixed_point import FixedPoint
        from patchgen.extras.accuracy.lanes import Lanes
        from patchgen.extras.accuracy.methods import Float32

        methods: list[Method] = [
            FixedPoint(workers, self.packet_numel, self.threads),
            Float32(workers),
        ]
        buckets: dict[str, Any] = {
            "bucket_numel": self.bucket_numel,
            "skip_incomplete": self.skip_incomplete,
            "stochastic": self.stochastic,
            "seed": self.values.seed,
        }
        for bits in dict.fromkeys(self.bits):
            methods += [
                Lanes(workers, bits, **buckets),
                Buckets(workers, bits, **buckets, requantize=self.requantize),
            ]
        return methods


@click.command(cls=Command)
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
@click.option(
    "--workers",
    type=click.IntRange(1, _MOST),
    metavar="N",
    help=f"Workers that sum. [default: what the files hold, else {_WORKERS}]",
)
@option(
    "--copies",
    group="Values",
    type=click.IntRange(1, _MOST),
    metavar="N",
    help="Take FILE as the tensor of one worker, and give it to N workers.",
)
@option(
    "--distribution",
    group="Values",
    type=click.Choice(_NAMES),
    help="Distribution of the values if no FILE is given. [default: normal]",
)
@option(
    "--scale", group="Values", type=float, metavar="X", help="Factor of these values. [default: 1]"
)
@option(
    "--numel",
    group="Values",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Elements of each worker. [default: {_NUMEL}]",
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
    help="Elements that share an exponent: packet_numel of switchml.cfg, or msg_numel with the "
    "RDMA backend. [default: 256]",
)
@option(
    "--num-worker-threads",
    "threads",
    group="SwitchML",
    type=click.IntRange(1, _MOST),
    default=4,
    metavar="N",
    help="Threads, as num_worker_threads of switchml.cfg. [default: 4]",
)
@option(
    "--bits",
    group="Buckets",
    type=click.IntRange(1, 8),
    multiple=True,
    default=(8, 4, 2),
    metavar="N",
    help="Bits of a value; may be repeated. [default: 8, 4 and 2]",
)
@option(
    "--bucket-numel",
    group="Buckets",
    type=click.IntRange(min=1),
    default=512,
    metavar="N",
    help="Elements of a bucket. [default: 512]",
)
@option(
    "--skip-incomplete", group="Buckets", is_flag=True, help="Do not quantize an incomplete bucket."
)
@option(
    "--requantize/--no-requantize",
    group="Buckets",
    default=True,
    help="Quantize the sums as well, but for those of SwitchML. [default: yes]",
)
@option("--stochastic", group="Buckets", is_flag=True, help="Round up or down at random.")
@click.option(
    "--plot", type=path_types.OUTPUT_FILE, metavar="FILE.png", help="Picture of what was measured."
)
@json_option
@gather("values", lambda given: _Values(**given), [field.name for field in fields(_Values)])
@into(_Request)
def accuracy(request: _Request) -> None:
    """Measures how far SwitchML's sums are from exact ones.

    Beside it: the plugin's sums in fewer bits, float32 as Gloo adds it, and bucketed max-min
    quantization as gradient compression uses it. FILE is a .npy, .npz or raw .bin, .f32 or .raw of
    floats whose first axis counts the workers, or one for each worker. Without it, values of a
    distribution are summed.
    """
    from patchgen.system import (
        extras,  # no other command needs them
        plots,  # no other command needs them
    )

    extras.require({"numpy": "numpy"})
    plot = request.plot
    if plot is not None:
        plots.check(plot)
    from patchgen.extras.accuracy import figure, report  # imports numpy
    from patchgen.extras.accuracy.measure import measure

    tensors = request.values.read()
    with progress():
        measured = measure(tensors, request.methods(tensors.workers))
    if request.as_json:
        print_json(report.data(tensors, measured))
    else:
        for line in report.lines(tensors, measured):
            click.echo(line)
    if plot is not None:
        figure.write(plot, tensors, measured)
        say(f"wrote {plot}")
