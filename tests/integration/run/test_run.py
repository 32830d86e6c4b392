"""`switchml-patch run` on a real torch: scripts as they are, with a graft and without SwitchML."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support import messages, programs, quick_torch
from support.disks import small
from support.waiting import ENOUGH, LIMIT_MS, captured, has_ended, until

from patchgen.extras.lab.simulator import compose_simulated
from patchgen.extras.train import setup
from patchgen.extras.train.result_text import NOTHING
from patchgen.system.ports import free_port

STOCK = ("--variant", "stock")
GROUP = """
import sys, time
import torch.distributed as dist
dist.init_process_group("gloo")
if sys.argv[1] == "fail" and dist.get_rank() == 1:
    raise ValueError("what went wrong")
"""
SLEEP = """
import os, subprocess, time
child = subprocess.Popen(["sleep", "600"])
for pid in (os.getpid(), child.pid):
    open(f"{pid}.pid", "w").close()
time.sleep(600)
"""
ALLREDUCE = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
tensor = torch.full((4,), dist.get_rank() + 1.0)
dist.all_reduce(tensor)
print(tensor.tolist(), flush=True)
"""
LATE = """
import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
for step in range(3):
    time.sleep(8 * (step == 1 and dist.get_rank() == 1))  # longer than the other one waits
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0] * 4
dist.barrier()
"""


@dataclass(frozen=True)
class Ran:
    out: str
    err: str
    report: dict[str, Any]

    @property
    def reports(self) -> list[dict[str, Any]]:
        return [rank["report"] for rank in self.report["ranks"]]


@dataclass(frozen=True)
class Runner:
    """Runs scripts in a directory whose name needs quoting; TMPDIR has to be empty afterwards."""

    python: Path
    graft: Path
    directory: Path
    scratch: Path
    path: Path | None = None
    """Where Python looks first."""

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, **({"PYTHONPATH": str(self.path)} if self.path else {})}

    def command(self, script: str, arguments: Sequence[str], options: Sequence[str]) -> list[str]:
        (self.directory / "a script.py").write_text(script)
        run = [sys.executable, "-m", "patchgen", "run", "--report", "report.json", *options]
        return [*run, "--", str(self.python), "a script.py", *arguments]

    def quick(self) -> Runner:
        """With a torch that is imported in no time."""
        site = quick_torch.make(self.scratch.parent)
        return replace(self, python=Path(sys.executable), path=site)

    def __call__(self, script: str, *arguments: str, options: Sequence[str], code: int = 0) -> Ran:
        report = self.directory / "report.json"
        report.unlink(missing_ok=True)
        done = captured(
            self.command(script, arguments, options), cwd=self.directory, env=self.environ
        )
        assert not list(self.scratch.iterdir())
        assert done.returncode == code, done.stderr
        data = json.loads(report.read_text()) if report.exists() else {}
        return Ran(done.stdout, done.stderr, data)

    def grafted(self, script: str, *, options: Sequence[str] = (), code: int = 0) -> Ran:
        return self(script, options=["--graft", str(self.graft), *options], code=code)


@pytest.fixture
def run(torch_python: Path, graft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    for name in [*os.environ]:
        if name.startswith(("SWITCHML_", "GLOO_")) and not name.startswith("SWITCHML_TEST_"):
            monkeypatch.delenv(name)
    scratch, directory = tmp_path / "scratch", tmp_path / "ein Verzeichnis, é"
    scratch.mkdir()
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    return Runner(torch_python, graft, directory, scratch)


def test_ranks_that_fail_over(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHML_FAILOVER", "1")
    monkeypatch.setenv("SWITCHML_TIMEOUT_MS", str(LIMIT_MS))
    ran = run.grafted(LATE, options=["--json"])
    assert json.loads(ran.out) == ran.report
    assert "  bytes  failovers  after a failure  jobs redone  seconds  returns" in ran.err
    for rank, report in enumerate(ran.reports):
        over = report["failover"]
        assert (report["calls"], over["failovers"], over["calls"], over["returns"]) == (1, 1, 2, 0)
        row = rf"(?m)^{rank} .*  1 +2 +{over['redone']} +{over['seconds']:.1f} +0\b"
        assert re.search(row, ran.err)
    assert "warning: SwitchML failed, and the ranks went on over Gloo: rank 0: " in ran.err


def test_a_training_run_with_a_graft_and_without(run: Runner, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text("import os; os.environ['SEEN'] = 'x'")
    script = 'import os; assert os.environ["SEEN"]\n' + programs.read("train")
    ways = {"graft": ["--graft", str(run.graft)], "stock": STOCK}
    weights = {}
    reports = {}
    for way, options in ways.items():
        (run.directory / way).mkdir()
        ran = replace(run, path=hooks)(script, way, "an argument", "--workers", options=options)
        assert ran.report["variant"] == way
        written = [
            json.loads((run.directory / way / f"{rank}.json").read_text()) for rank in (0, 1)
        ]
        assert written[0]["weights"] == written[1]["weights"]
        for one in written:
            assert one["argv"] == ["a script.py", way, "an argument", "--workers"]
            assert (one["name"], one["backend"]) == ("__main__", "gloo")
            assert one["file"].endswith("a script.py")
        lines = [f"[{rank}] {rank} line {n} {'x' * 100}" for rank in (0, 1) for n in range(200)]
        assert sorted(ran.out.splitlines()) == sorted(lines)
        weights[way], reports[way] = written[0]["weights"], ran
    assert max(abs(a - b) for a, b in zip(weights["graft"], weights["stock"])) < 1e-4
    assert reports["stock"].reports == [None, None]
    assert (reports["stock"].report["delegated"], reports["stock"].report["reason"]) == (False, "")
    ran = reports["graft"]
    assert ran.report["delegated"]
    assert ran.report["simulated"]
    assert setup.SIMULATED in ran.err
    assert messages.DELEGATES in ran.err
    for rank, report in enumerate(ran.reports):
        assert report["calls"] >= 5
        assert report["fallbacks"]["dtype"] == 1
        packets = " +".join(str(report["packets"][name]) for name in ("sent", "answers"))
        row = rf"(?m)^{rank} +{report['calls']} +{report['bytes']:,} +1 +{packets}$"
        assert re.search(row, ran.err)


def test_one_rank_fails(run: Runner) -> None:
    ran = run.quick()(GROUP + SLEEP, "fail", options=STOCK, code=1)
    assert "[1] " in ran.err
    assert "ValueError: what went wrong" in ran.err
    assert 'a script.py", line 6' in ran.err
    assert "rank 1 failed with exit code 1\n" in ran.err
    assert all(has_ended(path.stem) for path in run.directory.glob("*.pid"))


@pytest.mark.parametrize(
    ("number", "script"),
    [(signal.SIGINT, GROUP + SLEEP), (signal.SIGTERM, SLEEP), (signal.SIGKILL, SLEEP)],
    ids=["SIGINT in a group", "SIGTERM", "SIGKILL"],
)
def test_no_process_is_left(run: Runner, number: int, script: str) -> None:
    quick = run.quick()
    running = subprocess.Popen(
        quick.command(script, ["sleep"], STOCK), env=quick.environ,
        cwd=run.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    until(lambda: len([*run.directory.glob("*.pid")]) == 4, running)
    running.send_signal(number)
    output, _ = running.communicate(timeout=ENOUGH)
    assert all(has_ended(path.stem) for path in run.directory.glob("*.pid"))
    assert running.returncode == (130 if number == signal.SIGINT else -number)
    assert ("interrupted" in output) == (number == signal.SIGINT)
    if number != signal.SIGKILL:
        assert not list(run.scratch.iterdir())
    report = run.directory / "report.json"
    assert report.exists() == (number == signal.SIGINT)
    if report.exists():
        answer = json.loads(report.read_text())
        assert (answer["code"], [rank["world"] for rank in answer["ranks"]]) == (130, [2, 2])
        assert output.index(": Gloo alone") < output.index("interrupted")


def test_configurations_that_do_not_fit(run: Runner, tmp_path: Path) -> None:
    files = [tmp_path / f"{rank}.cfg" for rank in range(2)]
    for path in files:
        path.write_text(compose_simulated(rank=0, workers=2, controller_port=free_port()))
    configs = tuple(f"--config={path}" for path in files)
    ran = run.grafted(ALLREDUCE, options=(*configs, "--json"))
    assert json.loads(ran.out) == ran.report  # what the ranks write goes to stderr then
    assert ran.err.count("[3.0, 3.0, 3.0, 3.0]") == 2
    assert messages.OTHER_RANK.format(0, 1) in ran.report["reason"]
    assert f"warning: {NOTHING}: {ran.report['reason']}" in ran.err


def test_a_script_that_starts_its_ranks(run: Runner) -> None:
    ran = run.grafted(programs.read("spawn"), options=("--once",))
    assert [report["calls"] for report in ran.reports] == [1, 1]
    assert [rank["world"] for rank in ran.report["ranks"]] == [2, 2]


def test_the_variables_of_another_launcher(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    ran = run.quick()(GROUP, "", options=(*STOCK, "--workers", "1"))
    assert "warning: RANK, WORLD_SIZE, MASTER_ADDR of another launcher: overridden" in ran.err
    assert [(rank["rank"], rank["world"]) for rank in ran.report["ranks"]] == [(0, 1)]
    assert ran.report["notes"][0].startswith("warning: RANK")


LOGS = """
import ctypes, ctypes.util, os
glog = ctypes.CDLL(ctypes.util.find_library("glog"))
glog._ZN6google17InitGoogleLoggingEPKc(b"SwitchML")
message = ctypes.create_string_buffer(4096)
glog._ZN6google10LogMessageC1EPKcii(message, b"file.cc", 1, 0)
glog._ZN6google10LogMessageD1Ev(message)
(place,) = {os.environ.get("GLOG_log_dir"), os.environ.get("GOOGLE_LOG_DIR")} - {None}
print(sum(name.startswith("SwitchML.") for name in os.listdir(place)) > 0)
"""


def test_logs_of_the_client_library_are_not_left(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = run.quick()
    ran = quick(LOGS, options=(*STOCK, "--workers", "1"))
    assert ran.out == "True\n", ran.err
    monkeypatch.setenv("GOOGLE_LOG_DIR", str(run.directory))  # those that the user wants stay
    ran = quick(LOGS, options=(*STOCK, "--workers", "1"))
    assert ran.out == "True\n", ran.err
    assert [*run.directory.glob("SwitchML.*")]


def test_a_full_disk_is_reported_with_the_file_that_lacks_room(run: Runner) -> None:
    quick = run.quick()
    with small(run.scratch, "16k"):
        ran = quick(GROUP, "", options=STOCK, code=5)
    (message,) = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert message.startswith(f"error: {run.scratch}/switchml-run.")
    assert message.endswith(": No space left on device")


def test_what_cannot_be_run(run: Runner, tmp_path: Path) -> None:
    graft, quick = str(tmp_path / "none.so"), run.quick()
    for options, code, message in [
        (["--graft", graft], 3, "none.so: cannot be read"),
        (["--once", "--workers", "2"], 2, "drop --workers"),
        (["--workers", "256"], 2, "--workers 256: SwitchML's fixed point is for 255 ranks at most"),
        (["--rdma"], 2, "name the library with --switchml-home"),
    ]:
        ran = quick(ALLREDUCE, options=options, code=code)
        assert message in ran.err
        assert "Traceback" not in ran.err
