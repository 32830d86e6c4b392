"""A small project of PyTorch's shape, and an environment to build it in, for tests of a build.

    project = make(tmp_path / "project")                    # repositories and the pin of a commit
    environment = make_environment(tmp_path / "channel")    # environment.yml and its channel

`switchml-patch source --pytorch {project.pin_file} --mirror {project.mirror}` fetches it as it does
PyTorch, with its submodule. `python setup.py bdist_wheel` in it gives a wheel of a real torch:
libtorch_cpu.so is compiled from PyTorch's own ProcessGroupGloo.cpp, patched or not, and is found
before Debian's, which has all the rest. It is built by /usr/bin/python3 and reads from the
environment what PyTorch's setup.py reads: PYTORCH_BUILD_VERSION and PYTORCH_BUILD_NUMBER, MAX_JOBS,
DEBUG, and BUILD_*, USE_*, CMAKE_* for CMake, which is run only while build/ has no build.ninja.

PyTorch itself takes an hour to compile, and tests of `build` need many builds: stopped, continued,
with an error, on a full disk.

Needs of Debian 12 or 13: python3-torch, libtorch-dev, libgloo-dev, python3-dev, python3-setuptools,
python3-wheel, python3-venv, cmake, ninja-build, g++, git.
"""

from __future__ import annotations

import functools
import glob
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from patchgen.core.patch import pinning, pins
from patchgen.extras.install.payload import graft_hook
from support.shared import provided
from support.waiting import captured

PYTHON = "/usr/bin/python3"
DEBIAN_TORCH = Path("/usr/lib/python3/dist-packages/torch")
SUBMODULE = "third_party/tiny"

# Changes to make a project with.
COMPILE_ERROR = {"caffe2/core/threads.cpp": "int torch_threads() { return no_such_name; }\n"}
LINK_ERROR = {"caffe2/core/threads.cpp": "int gone();\nint torch_threads() { return gone(); }\n"}

_FILES = Path(__file__).resolve().parent / "torch_project_files"
_GLOO = "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp"
_GITHUB = "https://github.com/"
_DATE = "1670457600 +0000"
_OF_TORCH_1 = ("_meta_registrations.py", "onnx")  # torch 2 trains with none that is empty
_OF_DEBIAN = ("__init__.py", "distributed/__init__.py")


@dataclass(frozen=True)
class Project:
    """Project's repositories, as they are on GitHub, and the pin of a commit.

    `pytorch` and `tiny` are under the directory `mirror`. The submodule's newest commit is `later`,
    not the one that is pinned.
    """

    mirror: Path
    pin_file: Path
    commit: str
    submodule_commit: str
    later: str

    @property
    def pytorch(self) -> Path:
        return self.mirror / "pytorch" / "pytorch"

    @property
    def tiny(self) -> Path:
        return self.mirror / "pytorch" / "tiny"

    @property
    def pin(self) -> pins.Pin:
        return pins.load(str(self.pin_file))


@functools.lru_cache
def like() -> pins.Pin:
    """Return the pin of Debian's torch, or skip the test where there is none."""
    if (DEBIAN_TORCH / "version.py").exists():
        release = _of_debian()
        for pin in pins.shipped():
            if pin.version.startswith(f"{release}."):
                return pin
    pytest.skip("no Debian 12 or 13 with python3-torch: ci/packages")


def version() -> str:
    """Return the project's version, which no release has: no recipe asks for PyTorch's room."""
    return f"{_of_debian()}.9"


def make(directory: Path, changes: Mapping[str, str] | None = None) -> Project:
    """Write and commit the project in a new directory; the same changes give the same commit.

    They are other texts of its files, also of those in the submodule.
    """
    pin = like()
    mirror = directory / "served"
    pytorch, tiny = mirror / "pytorch" / "pytorch", mirror / "pytorch" / "tiny"
    left_out = ["__pycache__", *(() if version().startswith("1.") else _OF_TORCH_1)]
    shutil.copytree(_FILES, pytorch, ignore=shutil.ignore_patterns(*left_out))
    for name in _OF_DEBIAN:
        (pytorch / "torch" / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(DEBIAN_TORCH / name, pytorch / "torch" / name)
    (pytorch / _GLOO).parent.mkdir(parents=True)
    (pytorch / _GLOO).write_bytes(_process_group())
    standard = f"set(CMAKE_CXX_STANDARD {pin.cxx_standard})\n"
    own = {"version.txt": f"{version()}a0\n", "release.cmake": standard}
    _write(pytorch, {**own, **(changes or {})})

    shutil.move(pytorch / SUBMODULE, tiny)
    git(tiny, "init", "-q", "-b", "main")
    first = _commit(tiny, "pinned")
    _write(tiny, {"tiny.c": (tiny / "tiny.c").read_text().replace("the pinned one", "a later one")})
    later = _commit(tiny, "later")

    git(pytorch, "init", "-q", "-b", "main")
    _write(pytorch, {".gitmodules": f'[submodule "{SUBMODULE}"]\n\tpath = {SUBMODULE}\n'
                                    f"\turl = {_GITHUB}pytorch/tiny\n"})  # fmt: skip
    (pytorch / SUBMODULE).mkdir(parents=True)
    git(pytorch, "update-index", "--add", "--cacheinfo", f"160000,{first},{SUBMODULE}")
    commit = _commit(pytorch, "project")
    pin_file = directory / "pin.json"
    pin_file.write_text(pins.to_json(pinning.make(str(pytorch), pin, f"v{version()}", commit)))
    return Project(mirror, pin_file, commit, first, later)


def make_environment(directory: Path) -> Path:
    """Write an environment file, which is returned, and the channel with its packages.

    The prefix is a virtual environment over /usr/bin/python3, so what Debian has for Python is
    found in it, and pip installs into it.
    """
    from support.conda import Channel, Package  # needs the extra env

    (pip_wheel,) = glob.glob("/usr/share/python-wheels/pip-*.whl")
    python, cmake, ninja = (_version(program) for program in (PYTHON, "cmake", "ninja"))
    minor = ".".join(python.split(".")[:2])
    settings = f"home = /usr/bin\ninclude-system-site-packages = true\nversion = {python}\n"
    packages = (
        Package("python", python, files={
            "bin/python": (PYTHON,), "bin/python3": ("python",), "pyvenv.cfg": settings,
        }),
        Package("pip", os.path.basename(pip_wheel).split("-")[1], depends=("python",), files={
            f"lib/python{minor}/site-packages/pip.pth": f"{pip_wheel}\n",
        }),
        # Debian's own are seen through the prefix.
        Package("setuptools", "66.1.1", depends=("python",)),
        Package("wheel", "0.38.4", depends=("python",)),
        Package("cmake", cmake, files={"bin/cmake": ("/usr/bin/cmake",)}),
        Package("ninja", ninja, files={"bin/ninja": ("/usr/bin/ninja",)}, old_format=True),
    )  # fmt: skip
    channel = Channel(directory / "channel")
    channel.add(*packages)
    file = directory / "environment.yml"
    dependencies = [f"python={minor}", "pip", "setuptools", "wheel", "cmake>=3.13", "ninja"]
    file.write_text(json.dumps({"channels": [channel.url], "dependencies": dependencies}))
    return file


def git(cwd: Path, *arguments: str) -> str:
    """Run git independently of this machine's configuration."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "Tester", f"GIT_{role}_EMAIL": "tester@localhost",
                f"GIT_{role}_DATE": _DATE}  # fmt: skip
    done = captured(["git", *arguments], cwd=cwd, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _of_debian() -> str:
    """Return the release of Debian's torch, as 1.13."""
    found = str(graft_hook.torch_of(str(DEBIAN_TORCH))["version"])
    return ".".join(found.split(".")[:2])


@functools.lru_cache
def _process_group() -> bytes:
    source = provided("debian-source", "Debian and its archive")
    command = ["tar", "xOf", str(source), "--wildcards", f"*/{_GLOO}"]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def _write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def _commit(root: Path, message: str) -> str:
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)
    return git(root, "rev-parse", "HEAD")


def _version(program: str) -> str:
    output = subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True).stdout
    found = re.search(r"\d+(\.\d+)+", output.decode())
    assert found, f"{program} --version: {output!r}"
    return found.group()
