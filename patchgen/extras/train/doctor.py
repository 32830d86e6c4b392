"""Doctor on this machine: ranks that say which part of the way to the switch fails."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from patchgen.errors import ToolError, file_errors
from patchgen.extras.install.payload import doctor
from patchgen.extras.train.job import Job
from patchgen.extras.train.setup import Setup
from patchgen.extras.train.start import Line, run_job
from patchgen.system import files, interpreter

_SHOWN = 3  # last lines of the ranks where they end without a report


def examine(job: Job, setup: Setup, *, timeout: float, measures: bool) -> dict[str, Any]:
    """Starts the doctor on all ranks of a job; returns rank 0's report.

    Args:
        job: the job; its command is replaced.
        setup: its setup.
        timeout: seconds that ranks may be apart, and that a step may take.
        measures: True where allreduces are to be timed.

    Raises:
        ToolError: the ranks could not be started, or made no report.
        FileError: the temporary directory cannot be written.
    """
    with files.scratch("doctor") as directory, file_errors():
        os.mkdir(os.path.join(directory, doctor.PACKAGE))
        for name, text in doctor.read_sources().items():
            files.write(os.path.join(directory, name), text.encode())
        path = os.path.join(directory, "report.json")
        command = [setup.torch.python, "-m", doctor.PACKAGE, "--report", path]
        command += ["--timeout", str(timeout), *([] if measures else ["--no-times"])]
        search = interpreter.search_path(directory, setup.environ)
        said: list[str] = []

        def keep(line: Line) -> None:
            if line.error:
                said[:] = [*said[1 - _SHOWN :], line.text.decode(errors="replace").strip()]

        run_job(
            dataclasses.replace(job, command=command),
            dataclasses.replace(setup, environ={**setup.environ, "PYTHONPATH": search}),
            keep,
        )
        if not os.path.exists(path):
            raise ToolError("\n".join(["the ranks ended without a report:", *said]))
        with open(path, encoding="utf-8") as file:
            report: dict[str, Any] = json.load(file)
        if report["times"] and setup.switch is not None:
            report["times"]["switch"] = "in software"
    return report
