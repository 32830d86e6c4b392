"""Ranks as users start them: away from the hook, with signals and with input."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import quick_torch
from support.waiting import ENOUGH

REPORT = """
def report():
    return {"simulator": True, "flags": "", "calls": 2, "bytes": 8, "group": "agreed", "reason": "",
            "failure": "", "fallbacks": {"dtype": 0, "group": 0}}
"""
GROUP = """
import os, sys
sys.path.insert(0, {site!r})
import torch.distributed as dist
dist.init_process_group({backend!r})
"""


@dataclass(frozen=True)
class Runner:
    """Runs programs with a patched torch that is imported in no time; nothing is left of them."""

    directory: Path
    site: Path

    @property
    def scratch(self) -> Path:
        return self.directory / "scratch"

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if "SWITCHML_" not in name}
        return {**kept, "TMPDIR": str(self.scratch), "PYTHONPATH": str(self.site)}

    def command(self, options: str, words: str) -> list[str]:
        """Words of a command in which `python` is the interpreter, and of its options."""
        run = [sys.executable, "-m", "patchgen", "run", "--report", "report.json"]
        given = words.replace("python", sys.executable)
        return [*run, "--cache", "cache", *options.split(), "--", *shlex.split(given)]

    def __call__(
        self, options: str, words: str, **given: Any
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        (self.directory / "report.json").unlink(missing_ok=True)
        done = subprocess.run(
            self.command(options, words), cwd=self.directory, env=self.environ,
            capture_output=True, text=True, check=False, timeout=ENOUGH, **given,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        report = self.directory / "report.json"
        return done, json.loads(report.read_text()) if report.exists() else {}

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Runner]:
    runner = Runner(tmp_path, quick_torch.make(tmp_path))
    (runner.site / "torch" / "distributed" / "switchml.py").write_text(REPORT)
    runner.scratch.mkdir()
    runner.write("train.py", GROUP.format(site=str(runner.site), backend="gloo"))
    yield runner
    assert [*runner.scratch.iterdir()] == []


# As opentelemetry-instrument: it puts a directory of its own before ours, and becomes the script.
INSTRUMENT = """#!{python}
import os, sys
path = os.path.abspath("other") + ":" + os.environ["PYTHONPATH"]
os.execve(sys.argv[1], sys.argv[1:], dict(os.environ, PYTHONPATH=path))
"""
# As `conda run`: it starts the script, and waits for it.
WRAP = """#!{python}
import subprocess, sys
sys.exit(subprocess.call(sys.argv[1:]))
"""
HIDDEN = [
    "python -I train.py",
    "python -E train.py",
    "python -S train.py",
    "env -i RANK=0 WORLD_SIZE=2 python train.py",
    "env PYTHONPATH=other python train.py",
    "env SWITCHML_RUN=/gone/job.json python train.py",
    "sh -c 'python -I train.py; exit $?'",
    "./instrument python train.py",
    "./wrap python -I train.py",
]
REACHED = ["python train.py", "sh -c 'python train.py'", "./wrap python train.py"]


def write_launchers(run: Runner) -> None:
    run.write("other/sitecustomize.py", "")
    run.write("instrument", INSTRUMENT.format(python=sys.executable))
    run.write("wrap", WRAP.format(python=sys.executable))


@pytest.mark.parametrize("command", HIDDEN)
def test_ranks_that_the_hook_does_not_reach_are_told_and_refused(run: Runner, command: str) -> None:
    write_launchers(run)
    done, report = run("", command)
    why = "nothing was reported: the hook of run was not reached in rank 0, rank 1; "
    assert (done.returncode, report["code"]) == (0, 0), done.stderr
    assert f"warning: {why}" in done.stderr
    for word in ("-I", "-E", "-S", "env -i", "sudo", "container", "sitecustomize", "TMPDIR"):
        assert word in done.stderr
    done, report = run("--require", command)
    assert (done.returncode, report["code"]) == (6, 6), done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"error: --require: {why}")


@pytest.mark.parametrize("command", REACHED)
def test_ranks_that_the_hook_reaches(run: Runner, command: str) -> None:
    write_launchers(run)
    done, report = run("--require", command)
    assert (done.returncode, report["delegated"]) == (0, True), done.stderr


@pytest.mark.parametrize(
    "command",
    ["python -c 'import torch.distributed'", "python -c 'import os; os._exit(0)'", "./wrap true"],
)
def test_a_program_without_a_group_is_no_failure(run: Runner, command: str) -> None:
    run.write("wrap", f"#!{sys.executable}\n")
    done, _ = run("--require", command)
    assert done.returncode == 0, done.stderr
    assert "warning: nothing was delegated: no process group was made" in done.stderr


@pytest.mark.parametrize("options", ["", "--require"])
@pytest.mark.parametrize("script", ["-I train.py", "train.py"])
def test_a_command_that_starts_its_ranks_itself(run: Runner, script: str, options: str) -> None:
    launcher = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))"
    done, _ = run(f"--once {options}", f"env RANK=0 WORLD_SIZE=2 python -c '{launcher}' {script}")
    told = "nothing was reported: the hook of run was not reached in the ranks"
    assert (told in done.stderr) == (script != "train.py")
    assert done.returncode == (6 if options and script != "train.py" else 0)


def test_a_group_of_another_backend_does_not_do_where_switchml_is_required(run: Runner) -> None:
    report = REPORT.replace("agreed", "")
    (run.site / "torch" / "distributed" / "switchml.py").write_text(report.replace("2", "0"))
    run.write("train.py", GROUP.format(site=str(run.site), backend="mpi"))
    done, _ = run("--require", "python train.py")
    assert done.returncode == 6
    assert "error: --require: nothing was delegated: the process group's backend" in done.stderr


def test_switchml_is_not_required_of_ranks_without_it(run: Runner) -> None:
    done, _ = run("--require --way stock", "python train.py")
    assert done.returncode == 2
    assert "--require: --way stock is without SwitchML; drop one of them" in done.stderr
