"""The image of ci/Containerfile: what is in it, and that it writes the same patch."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.pages import ROOT

from patchgen.cli import main

TAG = "switchml-patch:test"
HOME = "/opt/switchml"


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **variables}, check=False, capture_output=True, text=True
    )


def test_no_engine(tmp_path: Path) -> None:
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    done = run(ROOT / "ci/image", PATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == "ci/image: none of podman, buildah and docker is here: install one\n"


class Container:
    """A container of the image, in a storage of its own."""

    def __init__(self, directory: Path) -> None:
        settings = directory / "storage.conf"
        settings.write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{directory}/store"\n'
            f'runroot = "{directory}/run"\n'
        )
        self.variables = {
            "CONTAINERS_STORAGE_CONF": str(settings),
            "BUILDAH_ISOLATION": "chroot",
        }
        self.name = ""

    def check(self, *command: str | Path) -> str:
        done = run(*command, **self.variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, base: Path) -> None:
        scratch = self.check("buildah", "from", "scratch").strip()
        self.check("buildah", "add", "--quiet", scratch, base, "/")
        self.check("buildah", "commit", "--rm", scratch, "docker.io/library/debian:bullseye")
        self.variables["IMAGE_TAG"] = TAG
        more = shlex.split(os.environ.get("IMAGE_ARGS", ""))
        self.check(ROOT / "ci/image", "--pull-never", *more)
        self.name = self.check("buildah", "from", "--pull-never", TAG).strip()

    def run(self, *command: str) -> str:
        return self.check("buildah", "run", self.name, "--", *command)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    made = Container(tmp_path_factory.mktemp("image"))
    try:
        made.start(Path(os.environ["SWITCHML_TEST_IMAGE"]))
        yield made
    finally:
        run("buildah", "rm", "--all", **made.variables)
        run("buildah", "rmi", "--all", "--force", **made.variables)


@pytest.mark.image
def test_the_image_writes_the_same_patch(container: Container, tmp_path: Path) -> None:
    version = CliRunner().invoke(main, ["--version"]).output
    assert container.run("switchml-patch", "--version") == version

    patch = tmp_path / "here.patch"
    arguments = ["generate", "--switchml-home", HOME, "-o"]
    assert CliRunner().invoke(main, [*arguments, str(patch)]).exit_code == 0
    container.run("switchml-patch", *arguments, "/opt/there.patch")
    assert container.run("cat", "/opt/there.patch").encode() == patch.read_bytes()


@pytest.mark.image
def test_a_build_can_start_in_the_image(container: Container) -> None:
    container.run("switchml-patch", "simulator", "install", "-o", HOME)
    container.run(
        *("switchml-patch", "check", "--python", "/usr/bin/python3", "--switchml-home", HOME),
        *("--accept", "crash-at-exit"),
    )
