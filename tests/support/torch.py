"""A real torch with the real patch: the source, patched; a graft of it; and ranks to run it.
Or with the plugin, as a wheel that is installed.

The default is Debian's PyTorch, of a release that is pinned. SWITCHML_TEST_PYTHON and
SWITCHML_TEST_SOURCE name another interpreter with a torch, and the source of that torch.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from patchgen.core.verify.exits import CRASHES
from patchgen.extras.install.payload import graft_hook
from patchgen.system.payload import run_pip
from patchgen.system.ports import free_port
from support import command, simulator
from support.forking import Servers
from support.launcher import Launcher, Rank
from support.shared import once, provided
from support.waiting import captured

REPOSITORY = Path(__file__).resolve().parents[2]
# Nothing of it is timed. g++ takes twice as long with torch's headers, and more to optimize.
# By default ccache preprocesses each source first, which takes a fifth of the compilation.
_QUICK = {"CMAKE_BUILD_TYPE": "None", "CCACHE_DEPEND": "1"}
GRAFT = {**_QUICK, "CXX": "clang++" if shutil.which("clang++") else "g++"}
PLUGIN = {**GRAFT, "CXXFLAGS": "-Werror -Wno-inconsistent-missing-override"}
PLUGIN_HERE = {**_QUICK, "CXX": "g++", "CXXFLAGS": "-Werror"}
# Of the source of Debian's torch, what the patch and a graft look at: a thirtieth of its files.
SOURCES = ("torch/csrc/distributed", "torch/distributed", "caffe2/CMakeLists.txt", "version.txt")


def switchml_patch(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return command.run(*arguments, env={**os.environ, **env})


def checked(*arguments: str | Path, **env: str) -> str:
    done = switchml_patch(*arguments, **env)
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def results(ranks: list[Rank], *, trained: bool = False) -> list[dict[str, Any]]:
    """Return the results of ranks, which must have succeeded.

    A process with the 1.7.1 wheel may crash at its end, after its result, when it has trained for
    more than a few steps, also unpatched.
    """
    for rank in ranks:
        crashed = -rank.code in CRASHES and trained and rank.result["torch"] == "1.7.1"
        assert rank.code == 0 or crashed, f"exit code {rank.code}:\n{rank.out}\n{rank.err}"
    return [rank.result for rank in ranks]


def located(python: Path | str) -> Path:
    """Return the directory of an interpreter's torch, without importing it."""
    code = "import importlib.util as util; print(util.find_spec('torch').origin)"
    return Path(subprocess.check_output([python, "-c", code], text=True).strip()).parent


def version_of(python: Path | str) -> str:
    return str(graft_hook.torch_of(str(located(python)))["version"])


@contextlib.contextmanager
def as_built(python: Path) -> Iterator[None]:
    """Tell a torch what its init_process_group does not know: Debian's is built without libuv."""
    with pytest.MonkeyPatch.context() as patch:
        if version_of(python).endswith("+debian"):
            patch.setenv("USE_LIBUV", "0")
        yield


@dataclass(frozen=True)
class Plugin:
    """A wheel, the interpreter that it was built with, and one that has it installed."""

    wheel: Path
    torch: Path
    python: Path
    environ: Mapping[str, str]
    """Variables that it was compiled with."""

    @property
    def package(self) -> Path:
        (found,) = self.python.parents[1].glob("lib/python*/site-packages/torch_switchml")
        return found


def built_plugin(
    torch: Path,
    home: Path,
    factory: pytest.TempPathFactory,
    name: str,
    *flags: str,
    environ: Mapping[str, str] = PLUGIN,
) -> Plugin:
    """Build and install the plugin for a torch, in a virtual environment with its packages.

    Made once for all processes, under that name.
    """

    def make(scratch: Path) -> None:
        where = ("-o", scratch, "--cache", scratch / "cache")
        wanted = ("--torch", torch, "--switchml-home", home, *where)
        checked("plugin", "build", *wanted, *flags, **environ)
        (wheel,) = scratch.glob("*.whl")
        subprocess.run([torch, "-m", "venv", "--without-pip", scratch / "venv"], check=True)
        (site,) = scratch.glob("venv/lib/python*/site-packages")
        (site / "torch.pth").write_text(f"{located(torch).parent}\n")
        python = scratch / "venv" / "bin" / "python"
        pip = [sys.executable, run_pip.__file__, "--python", str(python)]
        # What Debian's torch requires is not quite what Debian has.
        installed = captured([*pip, "install", "--no-index", "--no-deps", str(wheel)])
        assert installed.returncode == 0, installed.stderr

    made = once(factory, name, make)
    (wheel,) = made.glob("*.whl")
    return Plugin(wheel, torch, made / "venv" / "bin" / "python", environ)


def plugin_here(torch: Path, home: Path, factory: pytest.TempPathFactory) -> Plugin:
    """Return the plugin for the torch of the patch's tests."""
    return built_plugin(torch, home, factory, "plugin-here", environ=PLUGIN_HERE)


def plugin_launcher(plugin: Plugin, home: Path, scratch: Path, servers: Servers) -> Launcher:
    return Launcher(
        python=plugin.python,
        loading={"SWITCHML_TEST_BACKEND": "switchml"},
        report=plugin.package / "_patch.py",
        home=home,
        scratch=scratch,
        servers=servers,
    )


@pytest.fixture(scope="session")
def torch() -> Path:
    """Return an interpreter with the torch of PyPI that TORCH names."""
    return provided("torch", "a registry that has it")


@pytest.fixture(scope="session")
def plugin(torch: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Plugin:
    return built_plugin(torch, home, tmp_path_factory, "plugin")


@pytest.fixture(scope="session")
def torch_python() -> Iterator[Path]:
    python = Path(os.environ.get("SWITCHML_TEST_PYTHON", "/usr/bin/python3"))
    find = "import importlib.util as util, sys; sys.exit(not util.find_spec('torch'))"
    if subprocess.run([python, "-c", find], capture_output=True, check=False).returncode != 0:
        pytest.skip(
            f"{python} has no torch: apt-get install python3-torch libtorch-dev libgloo-dev"
        )
    with as_built(python):
        yield python


def _unpack(scratch: Path) -> Path:
    """Return a pristine source tree of the torch in use."""
    given = os.environ.get("SWITCHML_TEST_SOURCE")
    if given:
        tree = scratch / "pytorch"
        shutil.copytree(given, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        return tree
    source = provided("debian-source", "Debian and its archive")
    wanted = [f"*/{path}" for path in SOURCES]
    command = ["tar", "xf", str(source), "-C", str(scratch), "--wildcards", *wanted]
    subprocess.run(command, check=True)
    (tree,) = scratch.iterdir()
    return tree


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a SWITCHML_HOME: the simulator, in a directory whose name needs quoting."""
    name = "simulator (of SwitchML)"

    def make(directory: Path) -> None:
        # Compiles it, where two would at the same time.
        simulator.installed_prefix(tmp_path_factory)
        checked("simulator", "install", "-o", directory / name, CXXFLAGS=simulator.FLAGS)

    return once(tmp_path_factory, "home", make) / name


@pytest.fixture(scope="session")
def patched(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the source of the torch in use, with the patch applied."""

    def make(directory: Path) -> None:
        checked("apply", _unpack(directory), "--switchml-home", home)

    (tree,) = once(tmp_path_factory, "source", make).iterdir()
    return tree


@pytest.fixture(scope="session")
def graft(
    torch_python: Path, patched: Path, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    def make(directory: Path) -> None:
        given = ("--torch", torch_python, "--source", patched, "--switchml-home", home)
        checked("graft", "build", *given, "-o", directory / "graft.so", **GRAFT)

    return once(tmp_path_factory, "graft", make) / "graft.so"


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    made = Servers(tmp_path_factory.mktemp("servers"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def patch_launch(
    torch_python: Path,
    graft: Path,
    patched: Path,
    home: Path,
    servers: Servers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Launcher:
    return Launcher(
        python=torch_python,
        loading={"SWITCHML_TEST_GRAFT": str(graft)},
        report=patched / "torch" / "distributed" / "switchml.py",
        home=home,
        scratch=tmp_path_factory.mktemp("ranks"),
        servers=servers,
    )


@pytest.fixture(scope="session")
def plugin_launch(
    plugin: Plugin, home: Path, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Launcher:
    return plugin_launcher(plugin, home, tmp_path_factory.mktemp("plugin-ranks"), servers)


@pytest.fixture(scope="session")
def launch(patch_launch: Launcher) -> Launcher:
    return patch_launch


def launcher_of(python: Path, logs_in: Path) -> list[str]:
    """Return torchrun where this torch has it, else its forerunner. Skips where neither works."""
    if Version(version_of(python)) >= Version("2.4"):
        code = "import torch.distributed as dist; dist.TCPStore('127.0.0.1', 0, 1, True)"
        store = captured([python, "-c", code])
        if "libuv" in store.stderr:
            pytest.skip("this torch was built without libuv, which its torchrun needs")
    if (located(python) / "distributed" / "run.py").exists():
        # Without redirection, torch 1.13 fails under Python 3.11 before it starts a rank.
        logs = ["--redirects=1", "--tee=1", f"--log_dir={logs_in}"]
        port = f"--master_port={free_port()}"
        return ["torch.distributed.run", "--nproc_per_node=2", port, *logs]
    forerunner = ["torch.distributed.launch", "--use_env", "--nproc_per_node=2"]
    return [*forerunner, f"--master_port={free_port()}"]


@pytest.fixture(scope="session")
def torch_launcher(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return launcher_of(torch_python, tmp_path_factory.mktemp("torchrun"))
