"""Demo: train a network with stock Gloo and through SwitchML, and compare."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from patchgen.errors import CheckError, file_errors
from patchgen.extras.train.demo import payload, training
from patchgen.extras.train.demo.comparison import Comparison
from patchgen.extras.train.job import Job
from patchgen.extras.train.result_text import NOTHING, reason
from patchgen.extras.train.setup import Setup, prepare, stock_setup
from patchgen.extras.train.variants import AUTO
from patchgen.system import files, lock, paths

_LOGGER = logging.getLogger(__name__)
SCRIPT = "train.py"
_SOURCE = os.path.join(os.path.dirname(os.path.abspath(payload.__file__)), SCRIPT)
_OURS = "SWITCHML_"  # variables of the user that would change the trainings


@dataclass(frozen=True)
class DemoRequest:
    """Options of the demo."""

    output: str
    """Absolute path of the directory for all results."""
    cache: str
    python: str
    """Absolute path of an interpreter with a torch."""
    environ: Mapping[str, str]
    ranks: int
    epochs: int

    @property
    def script(self) -> str:
        """Path of the copy of the script that is run and that the user can read."""
        return os.path.join(self.output, SCRIPT)


def run_demo(request: DemoRequest) -> Comparison:
    """Train through SwitchML, then with stock Gloo, and compare.

    Raises:
        CheckError: nothing was delegated, or the weights differ by more than rounding explains.
        ToolError: the interpreter has no torch, something could not be built, or a training failed.
        FileError: the directory cannot be written.
        TreeError: another demo uses the directory.
    """
    with file_errors():
        os.makedirs(request.output, exist_ok=True)
    with lock.held(paths.from_native(request.output)), files.scratch("demo") as directory:
        with file_errors():
            shutil.copyfile(_SOURCE, request.script)
        # Build first, so that a failure costs no training.
        job = _job(request, AUTO, "switchml")
        setup = prepare(job, directory)
        switchml = _train(request, setup, "switchml", "SwitchML")
        if not switchml.calls:
            raise CheckError(
                f"{NOTHING}: {reason(switchml.result)}; what the ranks wrote is in {switchml.log}"
            )
        stock = _train(request, stock_setup(job, setup.torch), "gloo", "stock Gloo")
    outcome = Comparison(stock, switchml)
    problems = outcome.problems()
    if problems:
        raise CheckError("\n".join([*problems, f"what was measured is in {request.output}"]))
    return outcome


def _job(request: DemoRequest, variant: str, name: str) -> Job:
    directory = os.path.join(request.output, name)
    epochs = str(request.epochs)
    return Job(
        command=(request.python, request.script, "--epochs", epochs, "--output", directory),
        python=request.python,
        cache=request.cache,
        cwd=request.output,
        environ={key: text for key, text in request.environ.items() if not key.startswith(_OURS)},
        workers=request.ranks,
        variant=variant,
    )


def _train(request: DemoRequest, setup: Setup, name: str, title: str) -> training.Training:
    job = _job(request, setup.variant, name)
    _LOGGER.info("training with %s, on %d ranks", title, job.workers)
    return training.run_training(job, setup, title, os.path.join(request.output, name))
