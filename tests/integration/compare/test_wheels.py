"""Wheels with real programs: pip, a compiler, and runs that are killed or have no room."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import subprocess
import sys
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from support.trees import tool
from support.wheelhouse import PIN, Entry, Fake, zipped

from patchgen.core import recipes
from patchgen.core.wheel import delivery
from patchgen.core.wheel.compare import compare
from patchgen.system.wheel import normalise

VERSION = "1.7.1+switchml.dpdk"
TORCH = Fake("torch", VERSION, requires=["numpy"], files={"torch_build.py": "which = 'first'\n"})
SIZE = 48 << 20


class Pip:
    """A new virtual environment, and a directory with all packages that its pip can find."""

    def __init__(self, root: Path) -> None:
        self.links = root / "links"
        self.python = root / "venv" / "bin" / "python"
        self.constraints = root / "constraints.txt"
        self.recipe = recipes.read(PIN)
        # With the pip that is here: to install another takes longer than all tests with it.
        ours = Path(str(importlib.import_module("pip").__file__)).parent
        create = [sys.executable, "-m", "venv", "--without-pip", str(self.python.parents[1])]
        subprocess.run(create, check=True)
        (site,) = root.glob("venv/lib/python*/site-packages")
        (site / "pip").symlink_to(ours)
        self.constraints.write_text(delivery.compose_constraints(VERSION, self.recipe))
        self.wheel = TORCH.write(root / "own")
        for fake in (
            Fake("torch", "1.7.1", requires=["numpy"]),
            Fake("torch", "1.8.0", requires=["numpy"]),
            Fake("torchvision", "0.8.2", requires=["torch==1.7.1", "numpy"]),
            Fake("numpy", "1.23.5"),
            Fake("numpy", "2.0.2"),
            Fake("needs_torch", "1.8", requires=["torch==1.8.0"]),
        ):
            fake.write(self.links)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {
            **{name: text for name, text in os.environ.items() if not name.startswith("PIP_")},
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_FIND_LINKS": self.links.as_uri(),
            "PIP_NO_INDEX": "1",
        }
        return subprocess.run(arguments, env=environ, capture_output=True, text=True, check=False)

    def install(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.python), "-m", "pip", "install", *arguments)

    def as_told(self, wheel: Path) -> None:
        for command in delivery.list_commands(
            str(self.python), str(wheel), str(self.constraints), self.recipe
        ):
            done = self.run(*command)
            assert done.returncode == 0, done.stderr

    def evaluate(self, expression: str) -> str:
        name = expression.partition(".")[0]
        done = self.run(str(self.python), "-c", f"import {name}; print({expression})")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def pip(tmp_path_factory: pytest.TempPathFactory) -> Pip:
    made = Pip(tmp_path_factory.mktemp("pip"))
    made.as_told(made.wheel)
    return made


def test_torchvision_takes_this_torch(pip: Pip) -> None:
    assert pip.evaluate("torch.__version__") == VERSION
    assert pip.evaluate("torchvision.__version__") == "0.8.2"
    assert pip.evaluate("numpy.__version__") == "1.23.5"
    done = pip.run(str(pip.python), "-m", "pip", "check")
    assert done.returncode == 0, done.stdout


def test_a_wheel_that_was_built_again_is_installed_again(pip: Pip, tmp_path: Path) -> None:
    again = replace(TORCH, files={"torch_build.py": "which = 'second'\n"}).write(tmp_path)
    assert pip.install("--constraint", str(pip.constraints), str(again)).returncode == 0
    assert pip.evaluate("torch_build.which") == "first"  # the reason for --force-reinstall
    pip.as_told(again)
    assert pip.evaluate("torch_build.which") == "second"


def test_nothing_replaces_it_silently(pip: Pip) -> None:
    done = pip.install("--constraint", str(pip.constraints), "needs-torch==1.8")
    assert done.returncode != 0
    assert "torch==1.8.0" in done.stdout + done.stderr
    assert pip.evaluate("torch.__version__") == VERSION


def test_what_was_normalised_is_installed(pip: Pip, tmp_path: Path) -> None:
    out = tmp_path / pip.wheel.name
    script = Entry(f"torch-{VERSION}.data/scripts/run", b"#!python\nprint(7)\n", mode=0o100755)
    source = Fake("torch", VERSION).write(tmp_path / "source", [script])
    normalise(str(source), str(out), 0)
    done = pip.install("--no-deps", "--force-reinstall", str(out))
    assert done.returncode == 0, done.stderr
    assert pip.run(str(pip.python.with_name("run"))).stdout == "7\n"


def test_a_library_that_differs_has_a_row(tmp_path: Path) -> None:
    contents = (b"\x7fELF 1", b"\x7fELF 2?")
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    wheels = [
        str(zipped(tmp_path / f"{number}.whl", [Entry("lib/a.so", content)]))
        for number, content in enumerate(contents)
    ]
    lines = tool("compare", *wheels, code=6).stdout.splitlines()
    assert lines[0].split() == ["file", "differs", "A", "B"]
    sides = f"6 bytes, sha256 {digests[0][:12]}  7 bytes, sha256 {digests[1][:12]}"
    assert lines[2:] == [f"lib/a.so  contents from byte 5  {sides}", "1 file differs"]
    (found,) = json.loads(tool("compare", *wheels, "--json", code=6).stdout)["differences"]
    assert found == {
        "path": "lib/a.so",
        "kind": "contents",
        "left": {"size": 6, "sha256": digests[0]},
        "right": {"size": 7, "sha256": digests[1]},
        "offset": 5,
    }


def test_compare_tells_by_its_exit_code(tmp_path: Path) -> None:
    source = Fake("torch", "1", files={f"torch/{i}.py": "" for i in range(20)}).write(tmp_path)
    one, two, other = (tmp_path / f"{name}.whl" for name in ("one", "two", "other"))
    for path, epoch in ((one, 0), (two, 0), (other, 1607370004)):
        normalise(str(source), str(path), epoch)
    assert tool("compare", str(one), str(two)).stdout == "identical bytes\n"
    lines = tool("compare", str(one), str(other)).stdout.splitlines()
    row = "torch-1.dist-info/RECORD    time     1980-01-01 00:00:00  2020-12-07 19:40:04"
    assert row in lines
    assert lines[-2:] == [
        "time: 14 more; --json lists all of them",
        "every file is the same; the archives differ",
    ]
    data = json.loads(tool("compare", str(one), str(other), "--json").stdout)
    assert (data["same"], data["identical"], len(data["differences"])) == (True, False, 24)

    less = zipped(tmp_path / "less.whl", Fake("torch", "1").entries()[1:])
    more = zipped(tmp_path / "more.whl", Fake("torch", "1").entries())
    lines = tool("compare", str(less), str(more), code=6).stdout.splitlines()
    assert lines[2].startswith("torch.py  presence  -  18 bytes, sha256 ")
    assert lines[3:] == ["1 file differs"]
    data = json.loads(tool("compare", str(less), str(more), "--json", code=6).stdout)
    assert data["differences"][0]["right"]["size"] == 18
    assert data["same"] is False


def test_what_compare_cannot_read(tmp_path: Path) -> None:
    sound = str(zipped(tmp_path / "sound.whl", []))
    (tmp_path / "text").write_text("text")
    done = tool("compare", sound, str(tmp_path / "text"), code=2)
    assert done.stderr == f"error: {tmp_path}/text: not a zip archive: File is not a zip file\n"
    done = tool("compare", sound, str(tmp_path / "absent"), code=5)
    assert done.stderr == f"error: {tmp_path}/absent: No such file or directory\n"


def large(tmp_path: Path) -> Path:
    content = random.Random(1).randbytes(2 << 20).hex()  # deflate leaves half of it
    files = {"torch/lib/large.so": content + "x" * (SIZE - len(content))}
    return Fake("torch", "1", files=files).write(tmp_path)


def test_a_large_file_is_never_in_memory(tmp_path: Path) -> None:
    source, out = str(large(tmp_path)), str(tmp_path / "out.whl")
    tracemalloc.start()
    try:
        normalise(source, out, 0)
        compare(source, out)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    with zipfile.ZipFile(out) as archive:
        assert archive.getinfo("torch/lib/large.so").file_size == SIZE
    assert peak < SIZE / 4
