"""Doctor on this machine: ranks that say which part of the way to the switch fails."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from patchgen.errors import ToolError, file_errors
from patchgen.extras.doctor.payload import switchml_doctor
from patchgen.system import files

Start = Callable[[Sequence[str], str], Sequence[str]]
"""Runs a command on all ranks, which import modules from a directory. Returns the last lines that
they wrote to stderr."""


def examine(
    start: Start, python: str, *, timeout: float, measures: bool, simulated: bool
) -> dict[str, Any]:
    """Return the report of rank 0.

    Args:
        start: starts the ranks.
        python: interpreter of the ranks.
        timeout: seconds that ranks may be apart, and that a check may take.
        measures: whether allreduces are timed.
        simulated: whether the switch is software on this machine.

    Raises:
        ToolError: the ranks could not be started, or made no report.
        FileError: the temporary directory cannot be written.
    """
    with files.scratch("doctor") as directory, file_errors():
        os.mkdir(os.path.join(directory, switchml_doctor.PACKAGE))
        for name, text in switchml_doctor.read_sources().items():
            files.write(os.path.join(directory, name), text.encode())
        path = os.path.join(directory, "report.json")
        command = [python, "-m", switchml_doctor.PACKAGE, "--report", path]
        command += ["--timeout", str(timeout), *([] if measures else ["--no-times"])]
        last = start(command, directory)
        if not os.path.exists(path):
            raise ToolError("\n".join(["the ranks ended without a report:", *last]))
        with open(path, encoding="utf-8") as file:
            report: dict[str, Any] = json.load(file)
        if report["times"] and simulated:
            report["times"]["switch"] = "in software"
    return report
