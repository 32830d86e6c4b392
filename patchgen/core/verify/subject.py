"""The interpreter under test: how programs run in it, and what they answer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchgen.core.verify.payload import verify_rank, verify_work
from patchgen.core.verify.payload.verify_rank import MARK
from patchgen.core.verify.start import ALONE, RankJob, start_ranks
from patchgen.system import files, interpreter
from patchgen.system.process import CompletedRun

Event = dict[str, Any]

LIMIT = 120.0
"""Seconds that a program may take."""

_WORKER = (verify_rank.__file__, verify_work.__file__)
_REMOVED = ("SWITCHML_", "GLOO_", "PYTHONINSPECT", "LD_TRACE_LOADED_OBJECTS")
# glog, by which the client library logs, leaves its files where the program runs.
_FIXED = {**ALONE, "OMP_NUM_THREADS": "1", "GLOG_log_dir": "."}
_PATIENCE = 10.0  # seconds that ranks have to notice that one has failed


@dataclass(frozen=True)
class Subject:
    """An interpreter, the directory of an unpacked wheel or None, and a scratch directory."""

    interpreter: str
    unpacked: str | None
    scratch: str
    limit: float
    """Seconds that a program in it may take."""
    environ: Mapping[str, str]
    """Environment of the user."""


@dataclass(frozen=True)
class Answer:
    """Events of a program by step, and how it ended."""

    events: Mapping[str, Event]
    ended: CompletedRun


def environment(subject: Subject, own: Mapping[str, str]) -> dict[str, str]:
    """Environment of the user, but for what would change the result, and on loopback."""
    environ = {name: value for name, value in subject.environ.items()
               if not name.startswith(_REMOVED)}  # fmt: skip
    if subject.unpacked is None:
        environ["PYTHONDONTWRITEBYTECODE"] = "1"
    else:  # what the first process compiles of it, the others find
        environ["PYTHONPATH"] = interpreter.search_path(subject.unpacked, environ)
    return {**environ, **_FIXED, **own}


def run(
    subject: Subject, name: str, jobs: Sequence[Event], environs: Sequence[Mapping[str, str]]
) -> list[Answer]:
    """Runs the worker once for each job, side by side.

    Each is in an empty directory of its own, so that it imports nothing of where the user is.

    Args:
        subject: subject of the verification.
        name: name of the directory that has theirs.
        jobs: job of each.
        environs: variables of each, besides the subject's.

    Raises:
        ToolError: the interpreter cannot be started.
    """
    # Python imports from the directory of its program first, so that has no other file.
    program = os.path.join(subject.scratch, name, "program")
    os.makedirs(program)
    for path in _WORKER:
        files.copy(path, os.path.join(program, os.path.basename(path)))
    directories = [os.path.join(subject.scratch, name, str(rank)) for rank in range(len(jobs))]
    for directory in directories:
        os.mkdir(directory)
    ended = start_ranks(
        RankJob(
            command=[subject.interpreter, os.path.join(program, os.path.basename(_WORKER[0]))],
            environs=[environment(subject, own) for own in environs],
            directories=directories,
            stdin=[json.dumps(job).encode() + b"\n" for job in jobs],
            limit=subject.limit,
            patience=_PATIENCE,
        )
    )
    return [Answer(_events(one.out.decode(errors="replace")), one) for one in ended.runs]


def _events(out: str) -> dict[str, Event]:
    lines = (line[len(MARK) :] for line in out.splitlines(keepends=True) if line.startswith(MARK))
    # A line that has no end was cut short by the death of its writer.
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    return {event["step"]: event for event in events}
