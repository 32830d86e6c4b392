"""The images: one writes the same patch and builds the same wheel, in one the plugin sums."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import torch_project
from support.pages import ROOT

from patchgen.cli import main

IMAGE = "switchml-patch:1.7.1"
TAG = "switchml-patch:test"
BASE = "docker.io/library/debian"
HOME = "/opt/switchml"
OF_TORCH = ("python3-torch", "libtorch-dev", "libgloo-dev")
"""Packages that the small project takes the rest of torch from."""
CHROOT = 'for at in dev proc tmp; do mount --rbind /$at "$0/$at"; done; exec chroot "$0" "$@"'

PROGRAM = """
import torch, torch_switchml
torch.distributed.init_process_group("switchml")
tensor = torch.ones(1000)
torch.distributed.all_reduce(tensor)
print(tensor.sum().item(), torch_switchml.report()["calls"])
torch.distributed.destroy_process_group()
"""


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **variables}, check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize("script", ["image", "in-image"])
def test_no_engine(tmp_path: Path, script: str) -> None:
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    done = run(ROOT / "ci" / script, PATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == "ci/engine: none of podman, buildah and docker is here: install one\n"


@pytest.mark.parametrize("engine", ["podman", "docker"])
def test_the_command_of_an_engine(tmp_path: Path, engine: str) -> None:
    """The engine itself is not here: a script in its place prints what it is given."""
    programs, home, work = (tmp_path / name for name in ("bin", "home", "work"))
    programs.mkdir()
    for name in ("dirname", "id", "mkdir", "realpath"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    (programs / engine).write_text('#!/bin/sh\necho "$@"\n')
    (programs / engine).chmod(0o755)
    given = {
        "PATH": str(programs),
        "WORK": str(work),
        "BUILDDIR": str(work),
        "SWITCHML_HOME": str(home),
        "XDG_CACHE_HOME": str(tmp_path),
        "RDMA": "1",
        "IMAGE_ARGS": "--build-arg BASE='a b'",
    }
    done = run(ROOT / "ci/in-image", "switchml-patch", "check", **given)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"build -f ci/Containerfile -t {IMAGE} --build-arg BASE=a b .\n"
    assert done.stdout.startswith("run --rm ")
    assert done.stdout.endswith(f" {IMAGE} switchml-patch check\n")
    for mount in (f"{work}:/mnt/switchml-patch", f"{home}:{home}", f"{ROOT}:{ROOT}"):
        assert f" --volume {mount} " in done.stdout
    assert f" --env SWITCHML_HOME={home} " in done.stdout
    assert " --env RDMA=1 " in done.stdout


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Engine:
    """buildah with a storage of its own."""

    directory: Path

    @property
    def variables(self) -> dict[str, str]:
        return {
            "CONTAINERS_STORAGE_CONF": str(self.directory / "storage.conf"),
            "BUILDAH_ISOLATION": "chroot",
            "IMAGE_ARGS": f"--pull-never {os.environ.get('IMAGE_ARGS', '')}",
        }

    def check(self, *command: str | Path, **more: str) -> str:
        done = run(*command, **{**self.variables, **more})
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    def add_base(self, tag: str, suite: str, *packages: str) -> None:
        """Makes the base image of a Debian with more packages, by a tag of FROM's image."""
        container = self.check("buildah", "from", "scratch").strip()
        archive = Path(os.environ["SWITCHML_TEST_IMAGE"]) / f"{suite}-base.tar"
        self.check("buildah", "add", "--quiet", container, archive, "/")
        if packages:
            self.run(container, "apt-get", "update")
            self.run(container, "apt-get", "install", "-y", "--no-install-recommends", *packages)
        self.check("buildah", "commit", "--rm", container, f"{BASE}:{tag}")

    def container(self, tag: str) -> str:
        """A container of an image."""
        return self.check("buildah", "from", "--pull-never", tag).strip()

    def run(self, container: str, *command: str) -> str:
        return self.check("buildah", "run", container, "--", *command)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(tmp_path_factory.mktemp("image"))
    (made.directory / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{made.directory}/store"\n'
        f'runroot = "{made.directory}/run"\n'
    )
    try:
        yield made
    finally:
        run("buildah", "rm", "--all", **made.variables)
        run("buildah", "rmi", "--all", "--force", **made.variables)
        shutil.rmtree(made.directory)


@pytest.fixture(scope="module")
def container(engine: Engine) -> str:
    """A container of the image."""
    engine.add_base("bullseye", "bullseye")
    engine.check("make", "-C", ROOT, "image", IMAGE_TAG=TAG)
    return engine.container(TAG)


@pytest.mark.image
def test_the_image_writes_the_same_patch(engine: Engine, container: str, tmp_path: Path) -> None:
    version = CliRunner().invoke(main, ["--version"]).output
    assert engine.run(container, "switchml-patch", "--version") == version

    patch = tmp_path / "here.patch"
    arguments = ["generate", "--switchml-home", HOME, "-o"]
    assert CliRunner().invoke(main, [*arguments, str(patch)]).exit_code == 0
    engine.run(container, "switchml-patch", *arguments, "/opt/there.patch")
    assert engine.run(container, "cat", "/opt/there.patch").encode() == patch.read_bytes()


@pytest.mark.image
def test_a_build_can_start_in_the_image(engine: Engine, container: str, tmp_path: Path) -> None:
    assert container
    given = {"IMAGE": "1", "IMAGE_TAG": TAG, "SWITCHML_HOME": str(tmp_path / "home")}
    given |= {"WORK": str(tmp_path / "work"), "ARGS": "--dry-run"}
    variables = [f"{name}={value}" for name, value in given.items()]
    engine.check("make", "-C", ROOT, "simulator", *variables)
    plan = engine.check("make", "-C", ROOT, "wheel", *variables)
    assert "PyTorch v1.7.1 (" in plan
    assert "\n  seen at      /mnt/switchml-patch" in plan


@pytest.mark.image
def test_the_same_wheel_as_without_an_engine(engine: Engine, tmp_path: Path) -> None:
    """On Debian 12, which has the rest of the small project's torch."""
    engine.add_base("torch", "bookworm", *OF_TORCH)
    project = torch_project.make(tmp_path / "project", torch_project.debian_source())
    home, output = tmp_path / "home", tmp_path / "output"
    build = ["--pytorch", str(project.pin_file), "--mirror", str(project.mirror)]
    build += ["--set", "CMAKE_CXX_FLAGS_RELEASE=-O0"]
    given = {
        "IMAGE": "1",
        "IMAGE_TAG": TAG,
        "IMAGE_ARGS": f"{engine.variables['IMAGE_ARGS']} --build-arg BASE={BASE}:torch",
        "DEBUG": "1",
        "SWITCHML_HOME": str(home),
        "WORK": str(tmp_path / "work"),
        "BUILDDIR": str(output),
        "MOUNTS": str(tmp_path / "project"),
        "ARGS": " ".join(build),
    }
    variables = [f"{name}={value}" for name, value in given.items()]
    alone = {"CCACHE_DISABLE": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for target in ("simulator", "wheel", "verify"):
        engine.check("make", "-C", ROOT, target, *variables, **alone)
    (wheel,) = output.glob("torch-*+switchml.debug-*.whl")

    container = engine.container(TAG)
    root = engine.check("buildah", "mount", container).strip()
    elsewhere = tmp_path / "elsewhere"
    options = ["--debug", "--switchml-home", str(home), "--python", "python3"]
    places = ["--work", str(elsewhere / "work"), "--builddir", str(elsewhere)]
    inside = ["env", "-i", "CCACHE_DISABLE=1", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/bin"]
    engine.check(
        *("unshare", "--mount", "sh", "-ec", CHROOT, root, *inside),
        *("switchml-patch", "build", *build, *options, *places),
    )
    (again,) = elsewhere.glob("*.whl")
    assert again.name == wheel.name
    assert digest(again) == digest(wheel)


@pytest.mark.image
def test_the_plugin_sums_in_its_image(engine: Engine, tmp_path: Path) -> None:
    engine.add_base("bookworm-slim", "bookworm")
    engine.check("make", "-C", ROOT, "image-plugin", IMAGE_TAG=TAG)
    (tmp_path / "train.py").write_text(PROGRAM)
    # A container of buildah has a host name that no file of it knows.
    alone = ("--standalone", "--local_addr", "127.0.0.1", "--nproc_per_node", "2")
    given = {
        "GLOO_SOCKET_IFNAME": "lo",
        "SWITCHML_CONFIG": "/opt/switchml/switchml.cfg",
        "SWITCHML_REQUIRE": "1",
    }
    said = engine.check(
        *("buildah", "run", "--volume", f"{tmp_path}:/srv"),
        *(f"--env={name}={value}" for name, value in given.items()),
        *(engine.container(TAG), "--", "torchrun", *alone, "/srv/train.py"),
    )
    assert said.split() == ["2000.0", "1"] * 2
