"""Check this host, try to sum with the other ranks, and report to rank 0."""

import argparse
import contextlib
import datetime as dt
import importlib
import json
import os
import socket
import sys
import tempfile
from typing import Any

from . import checks, table
from .address import find_gloo_address
from .attempt import Attempt
from .config import find_proxy, read_text, read_values, without_numbers
from .finding import BAD
from .machine import look
from .measure import SIZES, measure, summarize
from .meeting import Meeting, find_problem, open_store
from .software import Library, describe, find_library

FAILED = 6
WRONG_USE = 2
_DAY = 86_400.0
_FIRST = ("ranks", "software")  # checks that must hold before ranks try to sum
_ROUNDS = 4  # of the agreement, each of which may take the group's timeout
_SILENT = {"ended": "says nothing", "output": []}  # attempt of a rank that did not report
_ANSWERS = 15.0  # seconds that a rank waits for others in addition to their own limit
_REQUIRE = "SWITCHML_REQUIRE"  # would raise, and hide the step at which the agreement ended
_GROUP = "SWITCHML_GROUP"  # may leave the doctor's group to Gloo
_FAILURES = ("failure", "failover")  # entries of a report about all groups of the process
_FILTERS = ("SWITCHML_MIN_NUMEL", "SWITCHML_DTYPES", "SWITCHML_OPS")  # of what is delegated


def main(argv: "list[str]") -> int:
    """Run the doctor, and return the exit code of this rank."""
    given = _parse(argv)
    with contextlib.suppress(ImportError):  # part of the plugin
        importlib.import_module("torch_switchml_launch").activate()
    library = find_library()
    environ = dict(os.environ)
    problem = find_problem(environ) or _check_report(given.report, environ)
    if problem:
        print(f"doctor: {problem}", file=sys.stderr)
        return WRONG_USE
    attempt = Attempt(lambda job: _try(job, library))
    alone = Attempt(lambda job: _try_alone(job, library))
    try:
        return _Doctor(given, environ, attempt, alone, library).examine()
    except (RuntimeError, OSError) as error:
        print(
            f"doctor: rank {environ['RANK']} on {_host(environ)}: rank 0 at "
            f"{environ['MASTER_ADDR']}:{environ['MASTER_PORT']} does not answer: {error}",
            file=sys.stderr,
        )
        return FAILED


def _parse(argv: "list[str]") -> Any:
    parser = argparse.ArgumentParser(prog="python -m switchml_doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--report", metavar="FILE", help="write the report as JSON")
    parser.add_argument("--no-times", action="store_true", help="do not time allreduces")
    parser.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="SECONDS",
        help="limit for ranks to wait for each other, and for each step [30]",
    )  # fmt: skip
    return parser.parse_args(argv)


def _check_report(path: "str | None", environ: "dict[str, str]") -> str:
    """Return why rank 0 cannot write its report; empty if it can."""
    directory = os.path.dirname(os.path.abspath(path or "."))
    there = not path or (os.access(directory, os.W_OK) and not os.path.isdir(path))
    if there or environ["RANK"] != "0":
        return ""
    return f"--report {path}: cannot be written; name a file in a directory that is there"


def seconds(text: str) -> float:
    """Read a time limit of a day at most."""
    value = float(text)
    if not 1 <= value <= _DAY:
        raise ValueError(text)
    return value


def _host(environ: "dict[str, str]") -> str:
    return environ.get("SWITCHML_HOST") or socket.gethostname()


def _try(job: "dict[str, Any]", library: Library) -> "dict[str, Any]":
    """Make a group as a training does. Runs in the child process."""
    import torch.distributed as dist

    for name in (_REQUIRE, _GROUP):
        os.environ.pop(name, None)
    environ = job["environ"]
    limit = dt.timedelta(seconds=job["timeout"])
    store = open_store(environ, job["timeout"], "switchml-doctor-group")
    place = {"rank": int(environ["RANK"]), "world_size": int(environ["WORLD_SIZE"])}
    dist.init_process_group(library.backend, store=store, timeout=limit, **place)
    report = library.module.report()
    found = {"report": report}
    if job["sizes"] and report["delegating"]:
        least = int(report["terms"]["SWITCHML_MIN_NUMEL"])
        sizes = [numel for numel in job["sizes"] if numel >= least]
        with contextlib.suppress(RuntimeError):  # the report has the reason
            found["times"] = measure(dist, sizes, job["timeout"])
        later = library.module.report()  # after the measurement
        report.update((name, later[name]) for name in _FAILURES if name in later)
    return found


def _try_alone(job: "dict[str, Any]", library: Library) -> "dict[str, Any]":
    """Make a group of this rank alone, and sum. Runs in the child process."""
    import torch
    import torch.distributed as dist

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "switchml.cfg")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(without_numbers(read_text(job["environ"])))
        for name in (_REQUIRE, _GROUP, *_FILTERS):
            os.environ.pop(name, None)
        os.environ.update(
            SWITCHML_CONFIG=path,
            SWITCHML_ALLOW_FAKE_SUMS="1",
            SWITCHML_TIMEOUT_MS=str(int(250 * job["timeout"])),
        )
        store = dist.FileStore(os.path.join(directory, "store"), 1)
        limit = dt.timedelta(seconds=job["timeout"])
        dist.init_process_group(library.backend, store=store, rank=0, world_size=1, timeout=limit)
        with contextlib.suppress(RuntimeError):  # the counters show the reason
            dist.all_reduce(torch.ones(1 << 14))
        return {"packets": library.module.report()["packets"]}


class _Doctor:
    def __init__(
        self,
        given: Any,
        environ: "dict[str, str]",
        attempt: Attempt,
        alone: Attempt,
        library: Library,
    ) -> None:
        self._given, self._environ = given, environ
        self._attempt, self._alone = attempt, alone
        software = describe(library)
        self._simulated = software["simulator"] == "True"
        ranks = int(environ.get("LOCAL_WORLD_SIZE") or 1)
        values = read_values(environ)
        direct = self._simulated or "connection" in software["fixes"].split(",")
        self._own = {
            "host": _host(environ),
            "rank": int(environ["RANK"]),
            "world": int(environ["WORLD_SIZE"]),
            "pid": os.getpid(),
            "software": software,
            "address": find_gloo_address(environ),
            "machine": list(look(values, simulator=self._simulated, ranks=ranks)),
            "proxy": "" if direct else find_proxy(values, environ),
        }
        self._meeting = Meeting(environ, given.timeout)

    def examine(self) -> int:
        """Run all checks, and return the exit code."""
        self._meeting.tell("host", self._own)
        if self._meeting.leads:
            return self._lead()
        if self._meeting.hear("goes", 2 * self._given.timeout + _ANSWERS):
            self._meeting.tell("attempt", self._run(self._attempt))
        else:
            self._attempt.cancel()
        # Every rank before this one may take as long.
        patience = (1 + self._meeting.world) * self._patience()
        if self._meeting.hear(f"alone/{self._own['rank']}", patience):
            self._meeting.tell("alone", self._run(self._alone))
        else:
            self._alone.cancel()
        code = self._meeting.hear("code", self._patience() + _ANSWERS)
        self._meeting.tell("end", {})
        return FAILED if code is None else int(code)

    def _lead(self) -> int:
        ranks = self._seated(self._given.timeout)
        findings = checks.judge(ranks).findings
        goes = all(one.state != BAD for name in _FIRST for one in findings[name])
        self._meeting.publish("goes", goes)
        if goes:
            self._meeting.tell("attempt", self._run(self._attempt))
            tried = {one["rank"]: one for one in self._meeting.gather("attempt", _ANSWERS)}
            ranks = self._seated(0)
            for rank in ranks:
                rank["attempt"] = tried.get(rank["rank"], dict(_SILENT))
        else:
            self._attempt.cancel()
        self._try_each(ranks)
        times = summarize([rank.get("attempt", {}).get("times") or [] for rank in ranks])
        report = table.data(checks.judge(ranks), times)
        self._show(report)
        code = 0 if report["holds"] else FAILED
        self._meeting.publish("code", code)
        self._meeting.tell("end", {})
        self._meeting.gather("end", _ANSWERS)  # the Store ends with this process
        return code

    def _try_each(self, ranks: "list[dict[str, Any]]") -> None:
        """If no rank had an answer, let each rank try alone, to find whose packets get lost."""
        failed = checks.judge(ranks).failed
        silent = failed is not None and failed.name == "answers" and checks.is_silent(ranks)
        wanted = silent and not self._simulated
        if not wanted:
            self._alone.cancel()
        for number, rank in enumerate(ranks):  # no rank is missing here
            self._meeting.publish(f"alone/{number}", wanted)
            if wanted and number == self._own["rank"]:
                self._meeting.tell("alone", self._run(self._alone))
            if wanted:  # in turn, because a controller serves one session at a time
                found = self._meeting.hear(f"alone/{number}/1", self._patience() + _ANSWERS)
                rank["alone"] = (found or {}).get("packets")

    def _seated(self, patience: float) -> "list[dict[str, Any]]":
        """Return what the ranks reported about themselves, with an entry for each missing rank."""
        found = self._meeting.gather("host", patience)
        here = {one["rank"] for one in found}
        found += [
            {"rank": rank, "host": "?", "absent": True}
            for rank in range(self._meeting.world)
            if rank not in here
        ]
        return sorted(found, key=lambda one: int(one["rank"]))

    def _patience(self) -> float:
        return float(_ROUNDS * self._given.timeout)

    def _run(self, attempt: Attempt) -> "dict[str, Any]":
        sizes = [] if self._given.no_times else SIZES
        job = {"environ": self._environ, "timeout": self._given.timeout, "sizes": sizes}
        return dict(attempt.run(job, self._patience()), rank=self._own["rank"])

    def _show(self, report: "dict[str, Any]") -> None:
        if self._given.report:
            try:
                with open(self._given.report, "w") as file:
                    json.dump(report, file, indent=2)
            except OSError as error:
                print(f"doctor: {self._given.report}: {error.strerror}", file=sys.stderr)
        if self._given.json:
            print(json.dumps(report, indent=2))
        else:
            print("\n".join(table.lines(report)))
        sys.stdout.flush()
