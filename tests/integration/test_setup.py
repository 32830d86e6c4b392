"""A newcomer's first commands: what make takes, and the virtual environment that it makes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support import disks, unprivileged
from support.programs import script
from support.waiting import captured

ROOT = Path(__file__).parents[2]


def make(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run make as from a shell, also where make has started the tests."""
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFL"))
    }
    return captured(["make", "-C", ROOT, *arguments], env={**own, **environ})


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("DPKD=1", "DPKD (did you mean DPDK?)"),
        ("dpdk=1", "dpdk (did you mean DPDK?)"),
        ("SWITCHML_HOEM=/opt/switchml", "SWITCHML_HOEM (did you mean SWITCHML_HOME?)"),
        ("ENVIROMENT:=x.yml", "ENVIROMENT (did you mean ENVIRONMENT?)"),
        ("V=1", "V (make help lists the variables)"),
    ],
)
@pytest.mark.parametrize("target", ["patch", "wheel"])
def test_a_variable_that_nothing_reads_is_refused(target: str, word: str, advice: str) -> None:
    done = make("--dry-run", target, "MLX5=1", word)
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert f"*** unknown variable {advice}." in line


def test_variables_that_something_reads(tmp_path: Path) -> None:
    for word in (
        "DPDK=yes",
        "ARGS=--set A=B C=1",
        "PYTHON=python3",
        "USE_MKLDNN=0",
        "CFLAGS=-g -O2",
    ):
        assert make("--dry-run", "patch", f"VENV={tmp_path}", word).returncode == 0, word
    assert make("--dry-run", "patch", DPKD="1").returncode == 0  # nothing tells what it is for


def test_variables_of_a_make_that_calls_this_one(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(f"all:\n\t$(MAKE) -C {ROOT} help\n")
    assert make("-C", tmp_path, "FOREIGN=1").returncode == 0


@dataclass(frozen=True)
class Environment:
    """A virtual environment of make, from an interpreter that makes one without a network."""

    venv: Path
    interpreter: Path
    log: Path

    @property
    def command(self) -> list[str | Path]:
        return ["patch", f"VENV={self.venv}", f"PYTHON={self.interpreter}"]

    @property
    def calls(self) -> list[str]:
        """The steps since the last look."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines

    def make(self) -> subprocess.CompletedProcess[str]:
        return make(*self.command)


PIP = """\
#!/bin/sh
venv=$(dirname "$0")/..
case "$*" in *pip\\>=*) step=pip ;; *--editable*) step=tool ;; esac
echo $step >>"{log}"
[ ! -e "{log}.$step" ] || {{ {how}; }}
printf '#!/bin/sh\\necho run >>"{log}"; test ! -e "{log}.run"\\n' >"$venv/bin/switchml-patch"
chmod +x "$venv/bin/switchml-patch"
"""
MADE = ["venv", "pip", "tool", "run", "run"]
PYTHON = """\
#!/bin/sh
[ "$1" = -m ] || exec {real} "$@"
echo venv >>"{log}"
mkdir -p "$3/bin"
: >"$3/pyvenv.cfg"
cp "{pip}" "$3/bin/python"
"""


@pytest.fixture
def environment(tmp_path: Path, request: pytest.FixtureRequest) -> Environment:
    how = getattr(request, "param", "exit 1")
    log, venv = tmp_path / "log", tmp_path / "venv"
    pip = script(tmp_path / "pip", PIP.format(log=log, how=how))
    text = PYTHON.format(real=sys.executable, log=log, pip=pip)
    return Environment(venv, script(tmp_path / "python", text), log)


def test_an_environment_is_made_once(environment: Environment) -> None:
    for steps in ([*MADE, "run"], ["run"]):
        done = environment.make()
        assert done.returncode == 0, done.stderr
        assert environment.calls == steps


@pytest.mark.parametrize("environment", ["exit 1", "kill -KILL $PPID $$"], indirect=True)
@pytest.mark.parametrize("step", MADE[1:-1])
def test_an_unfinished_environment_is_made_anew(environment: Environment, step: str) -> None:
    stopped = Path(f"{environment.log}.{step}")
    stopped.touch()
    assert environment.make().returncode != 0
    (environment.venv / "half of a package").touch()
    stopped.unlink()
    assert environment.calls[-1] == step
    done = environment.make()
    assert done.returncode == 0, done.stderr
    assert environment.calls == [*MADE, "run"]
    assert not (environment.venv / "half of a package").exists()


def test_an_installation_that_is_stopped_takes_the_others_along(environment: Environment) -> None:
    assert environment.make().returncode == 0
    stopped = Path(f"{environment.log}.tool")
    stopped.touch()
    plots = environment.venv / "plots"
    assert make(plots, *environment.command[1:]).returncode != 0
    stopped.unlink()
    assert environment.calls[-1] == "tool"
    assert environment.make().returncode == 0
    assert environment.calls == [*MADE, "run"]
    assert not plots.exists()


FILLED = 'head -c 300000 /dev/zero >>"$(dirname "$0")/large" || exit 1'


@pytest.mark.parametrize("environment", [FILLED], indirect=True)
def test_an_environment_that_a_full_disk_left(environment: Environment, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    full = replace(environment, venv=disk / "venv")
    steps = [Path(f"{environment.log}.{step}") for step in ("pip", "tool")]
    with disks.small(disk, "400k") as resize:
        for step in steps:
            step.touch()
        assert "No space left" in full.make().stderr
        resize("2m")
        assert full.make().returncode == 0
    assert environment.calls == ["venv", "pip", "tool", *MADE, "run"]


def test_files_that_are_no_environment_are_kept(environment: Environment) -> None:
    environment.venv.mkdir()
    (environment.venv / "mine").touch()
    done = environment.make()
    assert done.returncode != 0
    assert f"{environment.venv}: is not a virtual environment" in done.stderr
    assert [path.name for path in environment.venv.iterdir()] == ["mine"]


OLD = """\
#!{real}
import sys

sys.version_info = (3, 8, 20, "final", 0)
exec(sys.argv[2])
"""


@pytest.mark.parametrize("target", ["patch", "lint", "demo"])
def test_an_old_python_is_refused_in_one_line(tmp_path: Path, target: str) -> None:
    python = script(tmp_path / "python3.8", OLD.format(real=sys.executable))
    done = make(target, f"VENV={tmp_path / 'venv'}", f"PYTHON={python}")
    assert done.returncode != 0
    wanted = "3.10" if target == "demo" else "3.9"
    line, ended = done.stderr.splitlines()
    assert line == (
        f"{python}: is Python 3.8; name Python {wanted} or newer, as: make PYTHON=python3.11"
    )
    assert ended.startswith("make: ***")
    assert not (tmp_path / "venv").exists()


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    done = make("patch", f"VENV={tmp_path}/venv", "PYTHON=python9.9")
    assert done.stderr.startswith("python9.9: not found; name Python 3.9 or newer")


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs Debian")
def test_missing_packages_are_left_to_root() -> None:
    """Nobody is asked for a password."""
    with unprivileged.directory() as directory:
        packages = directory / "packages"
        packages.write_bytes((ROOT / "ci" / "packages").read_bytes())
        command = ["sh", str(packages), "dash"]
        subprocess.run(command, check=True, cwd="/", **unprivileged.identity())
        done = subprocess.run(
            [*command, "no-such-package"], check=False, capture_output=True, text=True, cwd="/",
            **unprivileged.identity(),
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.endswith("  apt-get install --no-install-recommends no-such-package\n")
