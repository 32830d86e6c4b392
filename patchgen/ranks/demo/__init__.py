"""The demo: a network is trained twice, with stock Gloo and through SwitchML, and compared."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen import payload
from patchgen.errors import CheckError, file_errors
from patchgen.ranks import run as running
from patchgen.ranks.demo import training
from patchgen.ranks.demo.outcome import Outcome
from patchgen.ranks.run.job import AUTO, STOCK
from patchgen.ranks.run.report import reason
from patchgen.system import lock, paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    class Report(Protocol):
        """Is told of each step, and how far it is."""

        def __call__(self, step: str) -> None:
            """A step begins."""

        def count(self, done: int, total: int) -> None:
            """So much of the step is done."""


SCRIPT = "train.py"
_SOURCE = os.path.join(os.path.dirname(os.path.abspath(payload.__file__)), SCRIPT)
_OURS = "SWITCHML_"  # variables of the user's that would make another run of this


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    output: str
    """The directory of all results, as an absolute path."""
    cache: str
    """Of what is built, as for `ranks.run.Job`."""
    python: str
    """An interpreter with a torch, as an absolute path."""
    environ: Mapping[str, str]
    ranks: int
    epochs: int

    @property
    def script(self) -> str:
        """The copy of the script that runs, for the user to read."""
        return os.path.join(self.output, SCRIPT)


def run(request: Request, report: Report) -> Outcome:
    """Trains twice.

    Raises:
        CheckError: nothing was delegated, or the weights differ by more than rounding explains.
        ToolError: the interpreter has no torch, something could not be built, or a training failed.
        FileError: the directory cannot be written.
        TreeError: another demo is at work there.
    """
    with file_errors():
        os.makedirs(request.output, exist_ok=True)
    with lock.held(paths.from_native(request.output)):
        with file_errors():
            shutil.copyfile(_SOURCE, request.script)
        # What cannot be built is known before anything is trained.
        switchml = _prepared(request, AUTO, "switchml", report)
        stock = _prepared(request, STOCK, "gloo", lambda _: None)
        outcome = Outcome(
            stock=_train(stock, "stock Gloo", report),
            switchml=_train(switchml, "SwitchML", report),
        )
    if not outcome.calls:
        raise CheckError(
            f"nothing was delegated: {reason(outcome.switchml.result)}; "
            f"what the ranks wrote is in {outcome.switchml.log}"
        )
    problems = outcome.problems()
    if problems:
        raise CheckError("\n".join([*problems, f"what was measured is in {request.output}"]))
    return outcome


@dataclass(frozen=True)
class _Prepared:
    """A training that can start."""

    job: running.Job
    setup: running.Setup
    directory: str
    """Of what the ranks write."""


def _prepared(request: Request, way: str, name: str, report: Callable[[str], None]) -> _Prepared:
    directory = os.path.join(request.output, name)
    epochs = str(request.epochs)
    job = running.Job(
        command=(request.python, request.script, "--epochs", epochs, "--output", directory),
        python=request.python,
        cache=request.cache,
        cwd=request.output,
        environ={key: text for key, text in request.environ.items() if not key.startswith(_OURS)},
        workers=request.ranks,
        way=way,
    )
    return _Prepared(job, running.prepare(job, report), directory)


def _train(prepared: _Prepared, name: str, report: Report) -> training.Training:
    report(f"training with {name}, on {prepared.job.workers} ranks")
    return training.run(prepared.job, prepared.setup, name, prepared.directory, report.count)
