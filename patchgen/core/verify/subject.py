"""Runs programs in the interpreter under test, and reads their reports."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchgen.core.verify.payload import verify_rank, verify_work
from patchgen.core.verify.payload.verify_rank import MARK
from patchgen.core.verify.start import ALONE
from patchgen.system import interpreter
from patchgen.system.process import CompletedRun, Program, side_by_side

Event = dict[str, Any]

LIMIT = 120.0
"""Default limit for a program, in seconds."""

_WORKER = (verify_rank.__file__, verify_work.__file__)
_REMOVED = ("SWITCHML_", "GLOO_", "PYTHONINSPECT", "LD_TRACE_LOADED_OBJECTS")
# glog, with which the client library logs, writes its files to the working directory.
_FIXED = {**ALONE, "OMP_NUM_THREADS": "1", "GLOG_log_dir": "."}
_PATIENCE = 10.0  # seconds for ranks to notice that another one failed


@dataclass(frozen=True)
class Subject:
    """Interpreter under test, an unpacked wheel or None, and a scratch directory."""

    interpreter: str
    unpacked: str | None
    scratch: str
    limit: float
    """Seconds for each program."""
    environ: Mapping[str, str]
    """Environment of the user."""


@dataclass(frozen=True)
class Answer:
    """Reported events of a program by step, and how it ended."""

    events: Mapping[str, Event]
    ended: CompletedRun


def make_environ(subject: Subject, own: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment, without variables that would change the result."""
    environ = {name: value for name, value in subject.environ.items()
               if not name.startswith(_REMOVED)}  # fmt: skip
    if subject.unpacked is None:
        environ["PYTHONDONTWRITEBYTECODE"] = "1"
    else:  # bytecode of the first process serves the others
        environ["PYTHONPATH"] = interpreter.search_path(subject.unpacked, environ)
    return {**environ, **_FIXED, **own}


def run(
    subject: Subject, name: str, jobs: Sequence[Event], environs: Sequence[Mapping[str, str]]
) -> list[Answer]:
    """Run the worker once for each job, in parallel.

    Each runs in an empty directory, so that it imports nothing from the user's directory.

    `name` is that of a directory below the subject's scratch directory. `environs` are variables
    besides the subject's.

    Raises:
        ToolError: the interpreter cannot be started.
    """
    # Python imports from the program's directory first, so that has no other files.
    program = os.path.join(subject.scratch, name, "program")
    os.makedirs(program)
    for path in _WORKER:
        shutil.copyfile(path, os.path.join(program, os.path.basename(path)))
    directories = [os.path.join(subject.scratch, name, str(rank)) for rank in range(len(jobs))]
    for directory in directories:
        os.mkdir(directory)
    command = [subject.interpreter, os.path.join(program, os.path.basename(_WORKER[0]))]
    programs = [
        Program(command, directory, make_environ(subject, own), json.dumps(job).encode() + b"\n")
        for directory, own, job in zip(directories, environs, jobs)
    ]
    ended = side_by_side(programs, limit=subject.limit, patience=_PATIENCE)
    return [Answer(_events(one.out.decode(errors="replace")), one) for one in ended]


def _events(out: str) -> dict[str, Event]:
    lines = (line[len(MARK) :] for line in out.splitlines(keepends=True) if line.startswith(MARK))
    # A line without its end was cut short when the worker died.
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    return {event["step"]: event for event in events}
