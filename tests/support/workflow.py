"""Runs a job of .github/workflows on this machine, step by step, as GitHub's runner does.

    for job in jobs(path):                     # one for each combination of the matrix
        results = Runner(machine, job).run()

`run:` is executed. `uses:` is done by the stand-in of that action, of workflow_actions.py. A key,
an expression or an action that is not known here is refused by its name.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import yaml

from support.workflow_expressions import Scope, UnknownError, holds, substitute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Action = Callable[["Runner", Mapping[str, str]], None]

_TOP = {"name", True, "permissions", "concurrency", "jobs", "env"}  # `on` is true in YAML 1.1
_JOB = {"runs-on", "timeout-minutes", "permissions", "strategy", "env", "steps", "container"}
_STRATEGY = {"fail-fast", "matrix"}
_STEP = {"name", "id", "uses", "with", "run", "if", "env", "shell", "working-directory"}
_SHELLS = {
    "": ["bash", "-e"],
    "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"],
    "sh": ["sh", "-e"],
}
_LIMIT = 1800  # seconds, which only a hang takes


class StepFailed(Exception):  # noqa: N818  # as GitHub calls it
    """A step has failed; the message says why."""


@dataclass(frozen=True)
class Job:
    """A job with one combination of its matrix."""

    workflow: str
    name: str
    matrix: Mapping[str, Any]
    env: Mapping[str, Any]
    container: str
    """Image that the steps run in; empty for the runner itself."""
    steps: tuple[Mapping[str, Any], ...]

    def __str__(self) -> str:
        return "-".join([self.workflow, self.name, *map(str, list(self.matrix.values())[:1])])


@dataclass
class Machine:
    """Places of a runner, and what stands in for the world around it."""

    root: Path
    actions: Mapping[str, Action]
    env: Mapping[str, str]
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Texts of the workflow that are replaced, such as paths outside of `root`."""
    enter: tuple[str, ...] = ()
    """Command that runs another in a folder of its own, which has `root` at the same path."""

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def var(self) -> Path:
        """Directory that stands for /var/tmp."""
        return self.root / "var"


@dataclass(frozen=True)
class Result:
    """Outcome of a step: success, failure or skipped."""

    step: str
    outcome: str
    output: str = ""


def jobs(path: Path, replaced: Mapping[str, str] | None = None) -> Iterator[Job]:
    """The jobs of a workflow, one for each combination of their matrices."""
    text = path.read_text(encoding="utf-8")
    for old, new in (replaced or {}).items():
        text = text.replace(old, new)
    workflow = yaml.safe_load(text)
    _check("workflow", workflow, _TOP)
    for name, job in workflow["jobs"].items():
        _check("job", job, _JOB)
        strategy = job.get("strategy", {})
        _check("strategy", strategy, _STRATEGY)
        container = job.get("container", "")
        image = container["image"] if isinstance(container, dict) else container
        env = {**workflow.get("env", {}), **job.get("env", {})}
        for step in job["steps"]:
            _check("step", step, _STEP)
        for matrix in combinations(strategy.get("matrix", {})):
            yield Job(path.stem, name, matrix, env, image, tuple(job["steps"]))


def combinations(matrix: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Combinations of a matrix: its product, with `include` added where it contradicts none."""
    if "exclude" in matrix:
        raise UnknownError("exclude of a matrix")
    axes = {name: values for name, values in matrix.items() if name != "include"}
    products = [dict(zip(axes, one)) for one in itertools.product(*axes.values())] if axes else []
    found = [dict(one) for one in products]
    added = []
    for extra in matrix.get("include", []):
        fitting = [
            one
            for one, product in zip(found, products)
            if all(product.get(name, value) == value for name, value in extra.items())
        ]
        for one in fitting:
            one.update(extra)
        if not fitting:
            added.append(dict(extra))
    return [*found, *added] or [{}]


def _check(what: str, given: Mapping[Any, Any], known: set[Any]) -> None:
    unknown = [str(key) for key in given if key not in known]
    if unknown:
        raise UnknownError(f"{what}: {', '.join(unknown)}")


class Runner:
    """Job on a machine: its variables, its outputs and how it has gone so far."""

    def __init__(self, machine: Machine, job: Job) -> None:
        self.machine = machine
        self.job = job
        self.summary = ""
        self.after: list[Callable[[], None]] = []
        """Ends of actions, run where no step has failed."""
        self._env: dict[str, str] = {}
        self._path: list[str] = []
        self._outputs: dict[str, Any] = {}
        self._failed = False
        machine.workspace.mkdir(parents=True, exist_ok=True)
        for place in (machine.home, machine.var, machine.root / "temp"):
            shutil.rmtree(place, ignore_errors=True)  # each job has a machine of its own
            place.mkdir(parents=True)

    def run(self) -> list[Result]:
        """Runs the steps in their order; after a failure those whose condition holds."""
        results = [self._step(number, step) for number, step in enumerate(self.job.steps)]
        for end in reversed(self.after if not self._failed else []):
            end()
        return results

    def add_path(self, directory: Path) -> None:
        """Puts a directory before PATH of the steps that follow."""
        self._path.insert(0, str(directory))

    def files(self, patterns: str) -> list[Path]:
        """Files that patterns name, one a line; `~` is the runner's home."""
        found = []
        for line in patterns.split("\n"):
            pattern = os.path.expanduser(line.strip().replace("~", str(self.machine.home)))
            base = self.machine.workspace
            place = base / pattern
            if not pattern:
                continue
            found += sorted(place.parent.glob(place.name)) if "*" in place.name else [place]
        return [path for path in found if path.exists()]

    def environment(self, own: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Variables of a step."""
        scope = self._scope({})
        env = dict(self.machine.env)
        for variables in (self.job.env, self._env, own or {}):
            env |= {name: substitute(str(value), scope) for name, value in variables.items()}
            scope = self._scope(env)
        env["PATH"] = os.pathsep.join([*self._path, self.machine.env["PATH"]])
        places = {name: str(self._file(name)) for name in _FILES}
        return {**env, **places, **self._github_variables(), "HOME": str(self.machine.home)}

    def _github_variables(self) -> dict[str, str]:
        github = {f"GITHUB_{name.upper()}": str(value) for name, value in self._github().items()}
        temporary = {"RUNNER_TEMP": str(self.machine.root / "temp"), "RUNNER_OS": "Linux"}
        return {"CI": "true", "GITHUB_ACTIONS": "true", **github, **temporary}

    def _github(self) -> dict[str, Any]:
        return {"ref": "refs/heads/main", "run_id": 17, "workspace": self.machine.workspace}

    def _scope(self, env: Mapping[str, str]) -> Scope:
        contexts = {
            "matrix": dict(self.job.matrix),
            "env": dict(env),
            "github": self._github(),
            "steps": self._outputs,
        }
        functions: dict[str, Callable[..., Any]] = {
            "success": lambda: not self._failed,
            "failure": lambda: self._failed,
            "always": lambda: True,
            "cancelled": lambda: False,
            "hashFiles": self._hash_files,
        }
        return Scope(contexts, functions)

    def _hash_files(self, *patterns: str) -> str:
        files = self.files("\n".join(patterns))
        digests = [hashlib.sha256(file.read_bytes()).digest() for file in files]
        return hashlib.sha256(b"".join(digests)).hexdigest() if digests else ""

    def _step(self, number: int, step: Mapping[str, Any]) -> Result:
        own = step.get("env", {})
        scope = self._scope(self.environment(own))
        name = substitute(str(step.get("name") or step.get("run") or step["uses"]), scope)
        identity = str(step.get("id", f"step {number}"))
        if not holds(step.get("if"), scope):
            self._outputs[identity] = {"outcome": "skipped", "conclusion": "skipped", "outputs": {}}
            return Result(name, "skipped")
        for file in _FILES:
            self._file(file).write_text("")
        try:
            output, outcome = self._do(step, scope), "success"
        except StepFailed as error:
            output, outcome = str(error), "failure"
            self._failed = True
        self._env |= _assignments(self._file("GITHUB_ENV"))
        for line in self._file("GITHUB_PATH").read_text().splitlines():
            self.add_path(self.machine.workspace / line)
        self.summary += self._file("GITHUB_STEP_SUMMARY").read_text()
        self._outputs[identity] = {
            "outcome": outcome,
            "conclusion": outcome,
            "outputs": _assignments(self._file("GITHUB_OUTPUT")),
        }
        return Result(name, outcome, output)

    def _do(self, step: Mapping[str, Any], scope: Scope) -> str:
        if "uses" in step:
            action, _, commit = step["uses"].partition("@")
            if action not in self.machine.actions:
                raise UnknownError(f"action {action}")
            if not re.fullmatch("[0-9a-f]{40}", commit):
                raise UnknownError(f"{action}@{commit}, which is not pinned to a commit")
            given = {name: substitute(_plain(v), scope) for name, v in step.get("with", {}).items()}
            self.machine.actions[action](self, given)
            return ""
        shell = step.get("shell", "sh" if self.job.container else "")
        if shell not in _SHELLS:
            raise UnknownError(f"shell {shell}")
        script = self.machine.root / "temp" / "step.sh"
        script.write_text(substitute(step["run"], scope))
        place = self.machine.workspace / step.get("working-directory", "")
        done = subprocess.run(
            [*self.machine.enter, "env", "-C", str(place), *_SHELLS[shell], str(script)],
            env=self.environment(step.get("env")), check=False, text=True, timeout=_LIMIT,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            raise StepFailed(f"{done.stdout}\nexit code {done.returncode}")
        return done.stdout

    def _file(self, name: str) -> Path:
        return self.machine.root / "temp" / name.lower()


_FILES = ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _assignments(file: Path) -> dict[str, str]:
    """Lines NAME=VALUE, and NAME<<WORD with the lines up to that word."""
    found, lines = {}, iter(file.read_text().splitlines())
    for line in lines:
        name, mark, word = line.partition("<<")
        if mark and "=" not in name:
            found[name] = "\n".join(iter(partial(next, lines), word))
        elif line:
            name, _, found_value = line.partition("=")
            found[name] = found_value
    return found
