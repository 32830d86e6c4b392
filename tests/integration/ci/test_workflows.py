"""The steps of .github/workflows, executed in their order: see support/workflow.py.

The small project takes the place of PyTorch, and a channel of the test that of conda-forge. By
default one job of each workflow runs, and of `wheels` up to the lock; SWITCHML_TEST_WORKFLOWS=all,
as in `make test-workflows`, runs all jobs whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import ssl
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support import compiler_cache, torch_project
from support.workflow import Job, Machine, Result, Runner, jobs
from support.workflow_actions import REPOSITORY, actions, programs, python

if TYPE_CHECKING:
    from pathlib import Path

    from support.torch_project import Environment, Project

pytestmark = pytest.mark.integration

WORKFLOWS = REPOSITORY / ".github" / "workflows"
WHOLE = os.environ.get("SWITCHML_TEST_WORKFLOWS") == "all"
LONG = {
    "ci/downloads": "#!/bin/sh\n",
    "ci/test": "#!/bin/sh\nexec python -m pytest -q tests/unit/test_errors.py\n",
}
"""Scripts of `make test` that take minutes, and what takes their place: one file of the tests."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    pytest.importorskip("conda_lock", reason="needs Python 3.10 and the extra `env`")
    if shutil.which("dpkg-query") is None:
        pytest.skip("the stand-in of apt-get asks Debian's dpkg-query")
    return torch_project.make_environment(tmp_path_factory.mktemp("channel"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project | None:
    """The small project, where whole jobs are run."""
    if not WHOLE:
        return None
    directory = tmp_path_factory.mktemp("small")
    return torch_project.make(directory / "project", torch_project.debian_source())


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, environment: Environment) -> Machine:
    """One machine for all jobs, so that .venv is made once."""
    root = tmp_path_factory.mktemp("runner")
    text = environment.file.read_text()
    overlay = {"environment.yml": text, "environment-cpu.yml": text, **LONG}
    path = f"{programs(root / 'programs')}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    env = {
        "PATH": path,
        "LANG": "C.UTF-8",
        "GIT_ALLOW_PROTOCOL": "file",
        "CMAKE_CXX_FLAGS_RELEASE": "-O0",
        "PIP_NO_BUILD_ISOLATION": "0",  # which means that there is none
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **compiler_cache.variables(launchers=False),
    }
    return Machine(root, actions(overlay), env, {"/var/tmp": str(root / "var")})  # noqa: S108


def load(machine: Machine, workflow: str) -> list[Job]:
    return list(jobs(WORKFLOWS / f"{workflow}.yml", machine.replaced))


def finished(results: list[Result]) -> None:
    for result in results:
        assert result.outcome != "failure", f"{result.step}\n{result.output}"


def test_every_workflow_is_tested() -> None:
    assert {path.stem for path in WORKFLOWS.iterdir()} == {"lock", "tests", "wheels"}


def test_tests(machine: Machine) -> None:
    (job,) = load(machine, "tests")
    assert job.container == "debian:12"
    with open("/etc/os-release", encoding="utf-8") as file:
        if 'VERSION_ID="12"' not in file.read():
            pytest.skip("the job runs in a container of Debian 12")
    # No step installs Python: in the container `make test` does, before it makes .venv.
    path = f"{python(machine.root / 'python')}:{machine.env['PATH']}"
    results = Runner(replace(machine, env={**machine.env, "PATH": path}), job).run()
    finished(results)
    assert " passed" in results[-1].output


@pytest.mark.skipif(not WHOLE, reason="downloads the packages of `make test`")
def test_tests_in_a_bare_debian(machine: Machine, tmp_path: Path) -> None:
    """With the real apt-get and pip, nothing that the steps need can be missing in the image."""
    folder, root = bare_debian(tmp_path / "debian12"), tmp_path / "runner"
    enter = 'mkdir -p "$1$2" && mount --bind "$2" "$1$2" && mount -t proc proc "$1/proc" && '
    enter += 'mount --rbind /dev "$1/dev" && folder=$1 && shift 2 && exec chroot "$folder" "$@"'
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "DEBIAN_FRONTEND": "noninteractive",
        **pip_settings(root),
    }
    within = ("unshare", "--mount", "sh", "-euc", enter, "sh", str(folder), str(root))
    (job,) = load(machine, "tests")
    results = Runner(Machine(root, machine.actions, env, {}, within), job).run()
    finished(results)
    assert " passed" in results[-1].output


def bare_debian(root: Path) -> Path:
    """A folder with what the image debian:12 has."""
    if os.getuid() or shutil.which("debootstrap") is None:
        pytest.skip("needs root and debootstrap")
    told = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    mirror = subprocess.check_output(told, text=True).split()[0]
    given = ["--variant=minbase", "bookworm", str(root), mirror]
    subprocess.run(["debootstrap", *given], check=True, stdout=subprocess.DEVNULL)
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    (root / "etc" / "dpkg" / "dpkg.cfg.d" / "docker-apt-speedup").write_text("force-unsafe-io\n")
    return root


def pip_settings(root: Path) -> dict[str, str]:
    """Settings of this machine's pip, such as its index, and the certificates that it trusts.

    Without files of this machine, which the folder does not have.
    """
    root.mkdir()
    trusted = shutil.copy(str(ssl.get_default_verify_paths().cafile), root / "certificates.pem")
    listed = subprocess.check_output(
        [sys.executable, "-m", "pip", "config", "list"], text=True
    ).splitlines()
    found = {}
    for line in listed:
        name, _, value = line.partition("=")
        place, _, option = name.rpartition(".")
        words = [one for one in value.strip("'").split() if not one.startswith(("/", "file:"))]
        if place in {"global", ":env:"} and words:
            found[f"PIP_{option.upper().replace('-', '_')}"] = " ".join(words)
    return {**found, "PIP_CERT": str(trusted)}


@pytest.mark.parametrize("number", range(2) if WHOLE else [1])
def test_lock(machine: Machine, number: int) -> None:
    job = load(machine, "lock")[number]
    finished(Runner(machine, job).run())
    lock = str(job.matrix["lock"])
    text = (machine.root / "artifacts" / lock / lock).read_text()
    assert "channel/linux-64/python-3.11" in text


@pytest.mark.parametrize("number", range(4) if WHOLE else [0])
def test_wheels(machine: Machine, project: Project | None, number: int) -> None:
    found = load(machine, "wheels")
    assert len(found) == 4
    job = found[number]
    env = dict(machine.env)
    if project is None:
        job = replace(job, steps=job.steps[: _number(job, "make lock") + 2])
    else:
        given = ["--pytorch", project.pin_file, "--mirror", project.mirror]
        env["ARGS"] = " ".join(map(str, given))
    finished(Runner(replace(machine, env=env), job).run())
    if project is not None:
        saved = {path.name.rpartition("-")[0] for path in (machine.root / "caches").iterdir()}
        assert {name.rpartition("-")[0] for name in saved} >= {f"wheels-{job.matrix['name']}"}
        name = f"torch-switchml-{job.matrix['name']}"
        (wheel,) = (machine.root / "artifacts" / name).glob("*.whl")
        attested = json.loads((machine.root / "attested.json").read_text())
        assert attested == {wheel.name: hashlib.sha256(wheel.read_bytes()).hexdigest()}
        flags = str(job.matrix["flags"]).lower().replace("=1", "").split()
        assert f"+{'.'.join(['switchml', *flags])}-" in wheel.name


def _number(job: Job, command: str) -> int:
    """Number of the step that runs a command."""
    (found,) = (n for n, step in enumerate(job.steps) if command in step.get("run", ""))
    return found


def test_a_failed_build_uploads_its_log(machine: Machine) -> None:
    job = load(machine, "wheels")[0]
    broken = [dict(step) for step in job.steps]
    broken[_number(job, "make simulator")]["run"] = "mkdir -p $WORK/logs; >$WORK/logs/x; false"
    results = Runner(machine, replace(job, steps=tuple(broken))).run()
    failed = _number(job, "make simulator")
    outcomes = [result.outcome for result in results]
    assert outcomes[:failed] == ["success"] * failed
    assert outcomes[failed:] == ["failure", *["skipped"] * (len(job.steps) - failed - 2), "success"]
    assert (machine.root / "artifacts" / "log-plain" / "logs" / "x").exists()
