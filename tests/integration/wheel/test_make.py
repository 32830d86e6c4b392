"""The targets of make that .github/workflows calls one after the other, on the small project."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import build
from support.build import Site
from support.programs import script
from support.waiting import ENOUGH

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Places:
    """Variables of make, in an empty directory."""

    site: Site
    root: Path

    @property
    def lock(self) -> Path:
        return self.root / "conda-lock.yml"

    @property
    def output(self) -> Path:
        return self.root / "output"

    def make(self, target: str | Path, **variables: str) -> str:
        channel = self.site.project.mirror.parents[1] / "environment"
        given = {
            "VENV": self.root / "venv",
            "ENVIRONMENT": channel / "environment.yml",
            "LOCK": self.lock,
            "WORK": self.root / "work",
            "BUILDDIR": self.output,
            "SWITCHML_HOME": self.root / "simulator",
            **variables,
        }
        done = subprocess.run(
            ["make", "-C", ROOT, target, *(f"{name}={value}" for name, value in given.items())],
            env={**build.environment(), "XDG_CACHE_HOME": str(self.root / "cache")}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=2 * ENOUGH,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    def build(self, arguments: str = "", **variables: str) -> str:
        project = self.site.project
        given = f"--pytorch {project.pin_file} --mirror {project.mirror} {arguments}"
        return self.make("wheel", ARGS=given, **variables)


@pytest.fixture
def places(site: Site, tmp_path: Path) -> Places:
    """With what the rules of .venv would make: the tool, and files that say that it is there."""
    tool = f'#!/bin/sh\nexec {sys.executable} -m patchgen "$@"\n'
    script(tmp_path / "venv" / "bin" / "switchml-patch", tool)
    for name in ("pip", "tool", "build"):
        (tmp_path / "venv" / name).touch()
    return Places(site, tmp_path)


def test_the_lock_comes_before_the_plan_of_a_build(places: Places) -> None:
    output = places.build("--dry-run", SWITCHML_HOME=str(places.site.client))
    assert "channel/linux-64/python-3." in places.lock.read_text()
    assert str(places.root / "work") in output
    assert not places.output.exists()


@pytest.mark.rebuild
def test_a_wheel_from_nothing(places: Places) -> None:
    places.make(places.lock)
    places.make("simulator")
    places.build(DEBUG="1")
    (wheel,) = places.output.glob("torch-*+switchml.debug-*.whl")
    assert wheel.name in places.make("verify")
    assert (places.root / "work" / "logs").exists()  # uploaded after a failure
