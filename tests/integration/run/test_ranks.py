"""Ranks as users start them: away from the hook, with signals and with input."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import command, programs, quick_torch
from support.first_process import first
from support.waiting import ENOUGH, captured, has_ended, until

from patchgen.extras.train.result_text import NOTHING

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
    def variables(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if "SWITCHML_" not in name}
        return {**kept, "TMPDIR": str(self.scratch)}

    @property
    def environ(self) -> dict[str, str]:
        return {**self.variables, "PYTHONPATH": str(self.site)}

    def command(self, options: str, words: str) -> list[str]:
        """Words of a command in which `python` is the interpreter, and of its options."""
        run = [*command.START, "run", "--report", "report.json", "--cache", "cache"]
        given = words.replace("python", sys.executable)
        return [*run, *options.split(), "--", *shlex.split(given)]

    def __call__(
        self, options: str, words: str
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        (self.directory / "report.json").unlink(missing_ok=True)
        given = self.command(options, words)[len(command.START) :]
        done = command.run(*given, cwd=self.directory, env=self.variables, path=self.site)
        assert "Traceback" not in done.stderr
        report = self.directory / "report.json"
        return done, json.loads(report.read_text()) if report.exists() else {}

    def write(self, name: str, text: str) -> None:
        programs.script(self.directory / name, text)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Runner]:
    runner = Runner(tmp_path, quick_torch.make(tmp_path))
    (runner.site / "torch" / "distributed" / "switchml.py").write_text(quick_torch.REPORT)
    runner.scratch.mkdir()
    runner.write("train.py", GROUP.format(site=str(runner.site), backend="gloo"))
    runner.write("other/sitecustomize.py", "")
    runner.write("instrument", INSTRUMENT.format(python=sys.executable))
    runner.write("wrap", WRAP.format(python=sys.executable))
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
sys.exit(subprocess.Popen(sys.argv[1:]).wait())
"""
HIDDEN = [
    "python -I train.py",
    "env PYTHONPATH=other python train.py",
    "env SWITCHML_RUN=/gone/job.json python train.py",
    "./instrument python train.py",
    *(
        pytest.param(words, marks=pytest.mark.rebuild)
        for words in (
            "python -E train.py",
            "python -S train.py",
            "env -i RANK=0 WORLD_SIZE=2 python train.py",
            "sh -c 'python -I train.py; exit $?'",
            "./wrap python -I train.py",
        )
    ),
]
REACHED = ["python train.py", "sh -c 'python train.py'", "./wrap python train.py"]


NOT_REACHED = "nothing was reported: the hook of run was not reached in rank 0, rank 1; "


def test_ranks_that_the_hook_does_not_reach_are_reported(run: Runner) -> None:
    done, report = run("", "python -I train.py")
    assert (done.returncode, report["code"]) == (0, 0), done.stderr
    assert f"warning: {NOT_REACHED}" in done.stderr
    for word in ("-I", "-E", "-S", "env -i", "sudo", "container", "sitecustomize", "TMPDIR"):
        assert word in done.stderr


@pytest.mark.parametrize("words", HIDDEN)
def test_ranks_that_the_hook_does_not_reach_are_refused(run: Runner, words: str) -> None:
    done, report = run("--require", words)
    assert (done.returncode, report["code"]) == (6, 6), done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"error: --require: {NOT_REACHED}")


@pytest.mark.parametrize("words", REACHED)
def test_ranks_that_the_hook_reaches(run: Runner, words: str) -> None:
    done, report = run("--require", words)
    assert (done.returncode, report["delegated"]) == (0, True), done.stderr


def test_a_kernel_without_what_is_optional(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that the ranks started ends with them, as with any kernel."""
    library = tmp_path / "bare_kernel.so"
    source = Path(__file__).parents[2] / "cpp" / "bare_kernel.c"
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    script = 'sleep 600 & echo "$!" >"$RANK.pid"; python train.py; exit $?'
    done, report = run("--require", f"sh -c {shlex.quote(script)}")
    assert (done.returncode, report["delegated"]) == (0, True), done.stderr
    assert all(has_ended((tmp_path / f"{rank}.pid").read_text().strip()) for rank in range(2))


@pytest.mark.parametrize(
    "words",
    ["python -c 'import torch.distributed'", "python -c 'import os; os._exit(0)'", "./wrap true"],
)
def test_a_program_without_a_group_is_no_failure(run: Runner, words: str) -> None:
    run.write("wrap", f"#!{sys.executable}\n")
    done, _ = run("--require", words)
    assert done.returncode == 0, done.stderr
    assert f"warning: {NOTHING}: no process group was made" in done.stderr


@pytest.mark.parametrize("options", ["", "--require"])
@pytest.mark.parametrize("script", ["-I train.py", "train.py"])
def test_a_command_that_starts_its_ranks_itself(run: Runner, script: str, options: str) -> None:
    launcher = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))"
    done, _ = run(f"--once {options}", f"env RANK=0 WORLD_SIZE=2 python -c '{launcher}' {script}")
    output = "nothing was reported: the hook of run was not reached in the ranks"
    assert (output in done.stderr) == (script != "train.py")
    assert done.returncode == (6 if options and script != "train.py" else 0)


def test_a_group_of_another_backend_does_not_do_where_switchml_is_required(run: Runner) -> None:
    report = quick_torch.REPORT.replace("agreed", "")
    (run.site / "torch" / "distributed" / "switchml.py").write_text(report.replace("2", "0"))
    run.write("train.py", GROUP.format(site=str(run.site), backend="mpi"))
    done, _ = run("--require", "python train.py")
    assert done.returncode == 6
    assert f"error: --require: {NOTHING}: the process group's backend" in done.stderr


def test_groups_that_delegate_nothing_do_not_do_where_switchml_is_required(run: Runner) -> None:
    report = quick_torch.REPORT.replace('"calls": 2', '"calls": 0').replace(
        '"dtype": 0', '"op": 1, "dtype": 1'
    )
    (run.site / "torch" / "distributed" / "switchml.py").write_text(report)
    done, message = run("--require", "python train.py")
    assert (done.returncode, message["code"]) == (6, 6)
    why = "every allreduce was left to Gloo: 1 by operation, 1 by type"
    assert done.stderr.splitlines()[-1] == f"error: --require: {NOTHING}: {why}"


def test_what_is_required_of_the_groups(run: Runner) -> None:
    done, _ = run("--require", "python -c 'import os; print(os.environ[\"SWITCHML_REQUIRE\"])'")
    assert done.stdout.count("] 1\n") == 2, done.stderr


def test_switchml_is_not_required_of_ranks_without_it(run: Runner) -> None:
    done, _ = run("--require --variant stock", "python train.py")
    assert done.returncode == 2
    assert "--require: --variant stock is without SwitchML; drop one of them" in done.stderr


FORWARDED = [
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT, signal.SIGABRT, signal.SIGCONT,
    signal.SIGXCPU, signal.SIGRTMIN + 1,
]  # fmt: skip
# A launcher that is told to end and waits for what it has started, as a shell with a trap.
HOLD = """#!{python}
import signal, subprocess, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: None)
sys.exit(subprocess.Popen(sys.argv[1:]).wait())
"""
BELOW = [
    "python saves.py fork spawn",
    "sh -c 'python saves.py; exit $?'",
    "./wrap python saves.py",
    "bash -c 'trap : INT TERM; python saves.py; :'",
    "bash -mc 'trap : INT TERM; setsid python saves.py; :'",
    """bash -c 'trap : INT TERM; sh -c "trap : INT TERM; ./hold python saves.py; :"; :'""",
    "setsid bash -c 'trap : INT TERM; python saves.py; :'",
]


@contextlib.contextmanager
def saving(run: Runner, words: str) -> Iterator[subprocess.Popen[str]]:
    """A run whose ranks are ready to save."""
    run.write("saves.py", programs.read("saving_rank"))
    run.write("hold", HOLD.format(python=sys.executable))
    with subprocess.Popen(
        run.command("--variant stock", words), cwd=run.directory, env=run.environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as running:  # fmt: skip
        ready = [run.directory / f"{rank}.ready" for rank in range(2)]
        until(lambda: all(path.exists() and path.read_text() for path in ready), running)
        yield running
        output, _ = running.communicate(timeout=ENOUGH)
        assert "\nTraceback" not in output
    assert all(has_ended(path.read_text()) for path in ready)


def saved(run: Runner, number: int) -> bool:
    """Tells whether each rank has saved once."""
    paths = [run.directory / f"{rank}.{number}" for rank in range(2)]
    return all(path.exists() and path.read_text() == "x" for path in paths)


def test_signals_that_do_not_end_a_run_go_on_to_its_ranks(run: Runner) -> None:
    with saving(run, "python saves.py") as running:
        for number in FORWARDED:
            running.send_signal(number)
            until(functools.partial(saved, run, number), running)
        run.write("end", "")
    assert running.returncode == 0


# In both lists, the last ones differ from those before by their signals only.
ENDED = [
    *((words, signal.SIGTERM) for words in BELOW),
    (BELOW[1], signal.SIGHUP),
    (BELOW[5], signal.SIGINT),
    *(
        pytest.param(BELOW[place], signal.SIGINT, marks=pytest.mark.rebuild)
        for place in (0, 1, 2, 3, 4, 6)
    ),
]
AT_ONCE = [
    (signal.SIGHUP, signal.SIGINT),
    (signal.SIGINT, signal.SIGTERM),
    (signal.SIGTERM, signal.SIGHUP),
    *(
        pytest.param(numbers, marks=pytest.mark.rebuild)
        for numbers in (
            (signal.SIGINT, signal.SIGHUP),
            (signal.SIGTERM, signal.SIGINT),
            (signal.SIGHUP, signal.SIGTERM),
        )
    ),
]


@pytest.mark.parametrize(("words", "number"), ENDED)
def test_ranks_have_time_to_end_below_a_shell(
    run: Runner, words: str, number: signal.Signals
) -> None:
    """Also where a terminal that is closed sends a second signal. Each rank is told once."""
    with saving(run, words) as running:
        running.send_signal(number)
        until(lambda: all((run.directory / f"{rank}.saves").exists() for rank in range(2)), running)
        running.send_signal(signal.SIGHUP)
        run.write("sent", "")
    assert running.returncode == (130 if number == signal.SIGINT else -number)
    assert saved(run, signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)


@pytest.mark.parametrize("numbers", AT_ONCE)
def test_ranks_have_time_to_end_after_two_signals_at_once(
    run: Runner, numbers: tuple[signal.Signals, ...]
) -> None:
    """A busy machine runs the command some time after both were sent."""
    run.write("sent", "")
    with saving(run, "python saves.py") as running:
        for number in (signal.SIGSTOP, *numbers, signal.SIGCONT):
            running.send_signal(number)
    assert saved(run, signal.SIGINT) or saved(run, signal.SIGTERM)


def test_a_signal_that_ends_the_shell_goes_on_to_what_it_has_started(run: Runner) -> None:
    with saving(run, BELOW[1]) as running:
        running.send_signal(signal.SIGUSR1)
        until(lambda: saved(run, signal.SIGUSR1), running)
        run.write("end", "")
    assert running.returncode == 128 + signal.SIGUSR1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_as_the_first_process_of_a_container(run: Runner, number: int) -> None:
    script = f"kill -s {number} 1; sleep 600"
    command = run.command("--variant stock", f"sh -c {shlex.quote(script)}")
    done = captured(first(command), cwd=run.directory, env=run.environ)
    assert done.returncode == 128 + number, done.stderr


READS = "import os, sys; print(os.environ['RANK'], sys.stdin.read().split())"


@pytest.mark.parametrize(
    ("given", "read"), [({"input": "a\nb"}, "['a', 'b']"), ({"stdin": subprocess.DEVNULL}, "[]")]
)
def test_the_first_rank_reads_the_input(run: Runner, given: dict[str, Any], read: str) -> None:
    command = run.command("--variant stock", f'python -c "{READS}"')
    done = captured(command, cwd=run.directory, env=run.environ, **given)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[0] 0 {read}", "[1] 1 []"]


def test_the_first_rank_reads_from_a_terminal(run: Runner) -> None:
    words = 'python -c "import sys; print(sys.stdin.isatty(), sys.stdin.readline())"'
    command = shlex.join(run.command("--variant stock --workers 1", words))
    terminal = ["script", "-qec", command, "/dev/null"]
    done = captured(terminal, cwd=run.directory, env=run.environ, input="typed\n", check=True)
    assert "True typed" in done.stdout


# A training that has not ended with its first line.
WRITES = """
import os, sys, time
print("out", flush=True)
print("err", file=sys.stderr, flush=True)
time.sleep(1)
open(os.environ["RANK"] + ".done", "w").close()
"""


@pytest.mark.parametrize(
    ("streams", "code"),
    [
        ("2>&-", 0),
        (">/dev/full", 5),
        ("<&- >&- 2>&-", 5),
        pytest.param("<&-", 0, marks=pytest.mark.rebuild),
        pytest.param(">&-", 5, marks=pytest.mark.rebuild),
    ],
)
def test_streams_that_are_closed_or_full(run: Runner, streams: str, code: int) -> None:
    run.write("program.py", WRITES)
    command = shlex.join(run.command("--variant stock", "python program.py"))
    done = captured(["sh", "-c", f"exec {command} {streams}"], cwd=run.directory, env=run.environ)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert ("error: the output cannot be written: " in done.stderr) == streams.startswith(">")
    assert all((run.directory / f"{rank}.done").exists() for rank in range(2))


REMOVES = """
import os, shutil, time
directory = os.path.dirname(os.environ["SWITCHML_RUN"])
import torch.distributed as dist
dist.init_process_group("gloo")
open(os.environ["RANK"] + ".up", "w").close()
while not (os.path.exists("0.up") and os.path.exists("1.up")): time.sleep(0.01)
if os.environ["RANK"] == "1":
    {removes}
    raise SystemExit({code})
"""


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("", 3),
        ("--require", 0),
        pytest.param("", 0, marks=pytest.mark.rebuild),
        pytest.param("--require", 3, marks=pytest.mark.rebuild),
    ],
)
def test_reports_that_are_lost_do_not_make_a_training_fail(
    run: Runner, options: str, code: int
) -> None:
    """As tmpreaper and the epilog of a job remove them; the first leaves directories."""
    removes = "shutil.rmtree(directory, ignore_errors=True)"
    if options:
        removes = "[os.remove(one.path) for one in os.scandir(directory) if one.is_file()]"
    run.write("train.py", REMOVES.format(removes=removes, code=code))
    done, report = run(options, "python train.py")
    assert (done.returncode, report["code"]) == (code, code), done.stderr
    (message,) = [line for line in done.stderr.splitlines() if "reports are lost" in line]
    assert message.startswith("warning: nothing was reported: the reports are lost, since /")
    assert message.endswith(" was removed while the ranks ran")
