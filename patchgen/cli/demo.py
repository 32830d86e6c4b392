"""demo: a training through SwitchML on this machine, without a switch."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shlex
import sys

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import NAME, Command, progress, show
from patchgen.errors import file_errors
from patchgen.system import files, interpreter

_LOGGER = logging.getLogger(__name__)
_MOST = 16  # ranks that one machine has room for, and that the images suffice for
_PICTURE, _DATA = "loss.png", "demo.json"


@click.command(cls=Command)
@path_types.output_option(
    "DIR",
    "Directory for the plot and the measurements. [default: build/demo]",
    default=os.path.join("build", "demo"),
)
@click.option(
    "--ranks",
    type=click.IntRange(2, _MOST),
    default=2,
    show_default=True,
    metavar="N",
    help="Number of processes that train together.",
)
@click.option(
    "--epochs",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    metavar="N",
    help="Number of passes over the training images.",
)
@click.option(
    "--torch",
    metavar="PYTHON",
    help="Interpreter whose torch is used. [default: the one that runs this command if it has a "
    "torch, else python3]",
)
@params.cache_option
def demo(output: str, ranks: int, epochs: int, torch: str | None, cache: str | None) -> None:
    """Train a small network with stock Gloo and through SwitchML, and compare.

    Builds a simulated switch and the plugin for the torch, unless an earlier run has built them.
    Fails if nothing was delegated, or if the weights differ by more than rounding explains.
    """
    from patchgen.system import dependencies

    dependencies.require({"matplotlib": "matplotlib", "numpy": "numpy"})
    from patchgen.extras.train.demo import (  # imports numpy
        DemoRequest,
        demo_text,
        picture,
        run_demo,
    )

    request = DemoRequest(
        output=os.path.normpath(os.path.join(os.getcwd(), output)),
        cache=params.cache(cache),
        python=interpreter.locate(torch or _python()),
        environ=dict(os.environ),
        ranks=ranks,
        epochs=epochs,
    )
    plot, data = (os.path.join(request.output, name) for name in (_PICTURE, _DATA))
    with progress():
        outcome = run_demo(request)
        _LOGGER.info("drawing")
        picture.write(plot, outcome)
    measured = json.dumps(demo_text.data(outcome, plot, request.script), indent=2)
    with file_errors():
        files.replace(os.fsencode(data), f"{measured}\n".encode())
    again = shlex.join(["run", "--", near(request.python), near(request.script)])
    for line in demo_text.lines(outcome, near(plot), f"{NAME} {again}"):
        show(line)


def _python() -> str:
    return sys.executable if importlib.util.find_spec("torch") else "python3"


def near(path: str) -> str:
    """Return the relative or the absolute path, whichever is shorter."""
    return min(os.path.relpath(path), os.path.abspath(path), key=len)
