"""Doctor on this machine: starts ranks that check each part of the way to the switch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from patchgen.errors import ToolError, file_errors
from patchgen.extras.doctor.payload import switchml_doctor
from patchgen.system import files

Start = Callable[[Sequence[str], str], Sequence[str]]
"""Starts a command on all ranks, whose Python path begins with a directory.

Returns the last lines that the ranks wrote to stderr.
"""


def examine(
    start: Start, python: str, *, timeout: float, measures: bool, simulated: bool
) -> dict[str, Any]:
    """Run the doctor on all ranks, and return the report of rank 0.

    Ranks wait `timeout` seconds for each other, and a check may take as long. `measures`: time
    allreduces. `simulated`: the switch is software on this machine.

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
