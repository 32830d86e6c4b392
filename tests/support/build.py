"""A build of the small project: what it is made from, and the command that makes it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import pytest

from support import command, compiler_cache, torch_project
from support.shared import once
from support.simulator import installed_prefix
from support.torch_project import Project
from support.waiting import ENOUGH, read_rest, read_until

LOCK = "conda-lock.yml"
HERE = ("--python", torch_project.PYTHON)
"""Options of a build with the system's interpreter.

It makes no environment, which would take as long as a compilation that fails.
"""


@dataclass(frozen=True)
class Site:
    """Inputs and work directory of a build."""

    root: Path
    project: Project
    lock: Path
    client: Path

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def output(self) -> Path:
        return self.root / "output"

    @property
    def attempts(self) -> list[str]:
        """Sections of the log, one for each run that compiled."""
        return (self.work / "logs" / "build.log").read_text().split("==> compile, ")[1:]

    @property
    def log(self) -> str:
        """The log of the last run that compiled."""
        return self.attempts[-1]

    @property
    def wheels(self) -> list[Path]:
        return sorted(self.output.glob("*.whl"))

    def elsewhere(self, root: Path) -> Site:
        return replace(self, root=root)

    def arguments(self, *arguments: str | Path) -> list[str]:
        return [*map(str, (
            "build", "--pytorch", self.project.pin_file,
            "--work", self.work, "--builddir", self.output, "--lock", self.lock,
            "--cache", self.root.parent / "cache", "--switchml-home", self.client,
            "--mirror", self.project.mirror, *arguments,
        ))]  # fmt: skip

    def start(
        self, *arguments: str | Path, cwd: Path | None = None, **env: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command.START, *self.arguments(*arguments)], cwd=cwd, env=environment(**env),
            text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    def compile(
        self,
        *arguments: str | Path,
        until: str = "[6/7] wheel",
        cwd: Path | None = None,
        **env: str,
    ) -> str:
        """Build until everything is compiled, where that is enough; the rest takes far longer.

        Returns:
            What was said until then.
        """
        with self.start(*arguments, cwd=cwd, **env) as running:
            output = read_until(running, until, "  sha256 ")  # the wheel may be there already
            running.send_signal(signal.SIGINT)
            read_rest(running)
        return output

    def run(
        self,
        *arguments: str | Path,
        code: int = 0,
        cwd: Path | None = None,
        **env: str,
    ) -> subprocess.CompletedProcess[str]:
        given = self.arguments(*arguments)
        done = command.run(*given, cwd=cwd, env=environment(**env), limit=2 * ENOUGH)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done


def environment(**env: str) -> dict[str, str]:
    """Return variables without the developer's build settings. `build` finds ccache itself."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    kept |= compiler_cache.variables(launchers=False)
    return {**kept, "GIT_ALLOW_PROTOCOL": "file", "CMAKE_CXX_FLAGS_RELEASE": "-O0", **env}


def make_parts(root: Path, client: Path) -> Site:
    """Make the inputs of builds in a directory, with a copy of a client library."""
    project, lock = _make_inputs(root)
    return _site(root, project, lock, client)


def make_site(factory: pytest.TempPathFactory) -> Site:
    """Return a site of its own, with inputs that are made once for all processes."""

    def make(directory: Path) -> None:
        project, _ = _make_inputs(directory)
        (directory / "project.json").write_text(json.dumps(astuple(project), default=str))

    made = once(factory, "build-inputs", make)
    mirror, pin_file, *commits = json.loads((made / "project.json").read_text())
    project = Project(Path(mirror), Path(pin_file), *commits)
    return _site(factory.mktemp("build"), project, made / LOCK, installed_prefix(factory))


def _make_inputs(root: Path) -> tuple[Project, Path]:
    pytest.importorskip("conda_lock", reason="needs Python 3.10 and the extra `env`")
    project = torch_project.make(root / "project")
    file = torch_project.make_environment(root / "environment")
    lock = root / LOCK
    made = command.run("env", "lock", "-f", file, "-o", lock, "--cache", root / "cache")
    assert made.returncode == 0, made.stderr
    return project, lock


def _site(root: Path, project: Project, lock: Path, client: Path) -> Site:
    (root / "first").mkdir()
    return Site(root / "first" / "place", project, lock, shutil.copytree(client, root / "client"))
