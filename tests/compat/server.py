"""Runs the tests of a module of PyTorch, each in a forked process, under a torch's interpreter.

    server.py MODULE RESULTS.jsonl [TEST...]

A forked process has the imports already, which would cost most of a test's time. The ranks of a
test are forked in their turn, unless COMPAT_START is spawn. Each line of the results is a test.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import importlib
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
import unittest
from typing import TYPE_CHECKING, Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import way

way.install()  # at import: a spawned rank imports this file, and nothing else, before its test

import torch


def import_sharded_tensors() -> None:
    """Tests of 1.13 let DDP use its sharded tensors, which no Python from 3.11 on can import."""
    try:
        importlib.import_module("torch.distributed._shard.sharded_tensor")
    except ModuleNotFoundError:
        pass  # an older torch
    except ValueError:
        module = importlib.import_module("torch.nn.parallel._replicated_tensor_ddp_utils")
        vars(module)["_set_ddp_with_replicated_tensor"] = lambda _: None


import_sharded_tensors()  # here, so that spawned ranks do it as well

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHER_BACKENDS = re.compile("nccl|ucc|mpi(?!l)", re.IGNORECASE)
EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Failure|Exit|Interrupt)\b.*")
POLL_S = 0.02


class Outcome(unittest.TestResult):
    """The first thing that was said of the one test, or that it passed."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome = ""
        self.why = ""

    def _note(self, outcome: str, why: str) -> None:
        if not self.outcome:
            self.outcome, self.why = outcome, why

    def _failed(self, error: Any) -> None:
        said = self._exc_info_to_string(error, unittest.TestCase())  # type: ignore[attr-defined]
        lines = [line.strip() for line in said.splitlines() if EXCEPTION.match(line.strip())]
        self._note("failed", lines[-1] if lines else said.strip().rsplit("\n", 1)[-1])
        sys.stderr.write(said)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._failed(err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._failed(err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._failed(err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._note("skipped", reason)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._note("failed", "passed, though a failure is expected")


def tests_of(module: Any) -> dict[str, unittest.TestCase]:
    def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                yield from flat(test)
            else:
                yield test

    found = {}
    for test in flat(unittest.TestLoader().loadTestsFromModule(module)):
        found[test.id().removeprefix(module.__name__ + ".")] = test
    return {name: test for name, test in found.items() if not OTHER_BACKENDS.search(name)}


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def prepare(scratch: str) -> None:
    """Prepares what PyTorch's own runner gives a distributed test."""
    for directory in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(scratch, directory))
    os.environ |= {
        "TEMP_DIR": scratch,
        "TMPDIR": scratch,
        "COMPAT_SCRATCH": scratch,
        "COMPAT_PORT": free_port(),
        "MASTER_PORT": free_port(),
    }
    tempfile.tempdir = scratch


def act(test: unittest.TestCase, scratch: str) -> None:
    """Runs the test in the forked process and leaves its outcome in a file."""
    os.setsid()
    log = os.open(os.path.join(scratch, "log"), os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(log, stream)
    prepare(scratch)
    outcome = Outcome()
    unittest.TestSuite([test]).run(outcome)
    way.leave()
    with open(os.path.join(scratch, "outcome"), "w", encoding="utf-8") as file:
        json.dump({"outcome": outcome.outcome or "passed", "why": outcome.why}, file)
    sys.stdout.flush()
    os._exit(0)


def wait_for_end(pid: int, limit: float) -> bool:
    deadline = time.monotonic() + limit
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def run(test: unittest.TestCase, limit: float, log: str) -> dict[str, Any]:
    scratch = tempfile.mkdtemp(prefix="compat-")
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            act(test, scratch)
        finally:
            os._exit(70)
    in_time = False
    try:
        in_time = wait_for_end(pid, limit)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # with it all ranks that it has left
        if not in_time:
            os.waitpid(pid, 0)
    answer: dict[str, Any] = {"outcome": "failed", "why": "the process of the test died"}
    if not in_time:
        answer["why"] = f"did not end within {limit:g} s"
    path = os.path.join(scratch, "outcome")
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        answer |= json.load(file)
    reports = []
    for path in glob.glob(os.path.join(glob.escape(scratch), "*.json")):
        with contextlib.suppress(ValueError), open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    answer["seconds"] = round(time.monotonic() - begun, 1)
    answer["summed"] = sum(report["calls"] for report in reports)
    if answer["outcome"] == "failed" or not os.path.exists(log):
        with contextlib.suppress(OSError):
            shutil.move(os.path.join(scratch, "log"), log)
    shutil.rmtree(scratch, ignore_errors=True)
    return answer


def repeated(test: unittest.TestCase, times: int, limit: float, log: str) -> dict[str, Any]:
    """The answer of the last run that failed, else of the last, and how many failed."""
    answers = [run(test, limit, log) for _ in range(times)]
    failed = [answer for answer in answers if answer["outcome"] == "failed"]
    return {**(failed or answers)[-1], "runs": times, "failed": len(failed)}


def fork_ranks() -> None:
    """Ranks are forked: the tests of newer PyTorch only know how to spawn them."""
    module = sys.modules.get("torch.testing._internal.common_distributed")
    if module is not None:
        fork = torch.multiprocessing.get_context("fork").Process
        module.MultiProcessTestCase._spawn_processes = lambda self: self._start_processes(fork)


def main(scratch: str) -> None:
    prepare(scratch)  # some tests read it when they are imported
    path, results, *patterns = sys.argv[1:]
    sys.argv = [path]  # PyTorch's tests parse it
    directory = os.path.dirname(os.path.abspath(path))
    sys.path[1:1] = [directory, os.path.dirname(directory)]
    module = importlib.import_module(os.path.basename(path).removesuffix(".py"))
    if os.environ["COMPAT_START"] == "fork":
        fork_ranks()
    limit = float(os.environ["COMPAT_LIMIT"])
    chosen = {
        name: test
        for name, test in tests_of(module).items()
        if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    }
    with open(results, "w", encoding="utf-8") as file:
        for number, (name, test) in enumerate(chosen.items(), 1):
            log = os.path.join(os.environ["COMPAT_LOGS"], name + ".log")
            answer = repeated(test, int(os.environ["COMPAT_REPEAT"]), limit, log)
            file.write(json.dumps({"test": name, **answer}) + "\n")
            file.flush()
            sys.stderr.write(
                f"{number}/{len(chosen)} {name}: {answer['outcome']} ({answer['seconds']} s)\n"
            )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="compat-") as outer:
        main(outer)
