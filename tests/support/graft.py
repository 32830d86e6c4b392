"""A torch of a few lines that is grafted like the real one, and grafts for it.

For what the tool does to an installation: it installs, compares and removes grafts, and a test
breaks the torch in some way before each. A real torch is too large to copy for each test, and takes
seconds to import. Real grafts sum in integration/ranks and integration/graft/test_ranks.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen.core.patch import render
from patchgen.extras.install.graft.identity import Identity
from patchgen.extras.install.payload import graft_hook
from support import command
from support.trees import tool
from support.waiting import captured

VERSION = "1.2.3"
COMMIT = "0123456789" * 4

_INIT = """
from .version import __version__
from torch import version
from torch._C import *
"""
# As the dynamic linker does, it takes what is in the global scope when it is loaded.
_C = """
import ctypes
_GLIBCXX_USE_CXX11_ABI = True
__file__ = None
grafted = hasattr(ctypes.CDLL(None), "switchml_delegate_report")
"""
_DISTRIBUTED = "class ProcessGroupGloo: pass\n"
_GRAFT = """
#include <stddef.h>
#include <string.h>
extern const char switchml_graft_identity[];
const char switchml_graft_identity[] = %s;
size_t switchml_delegate_report(char* buffer, size_t capacity) {
  static const char text[] = "{\\"flags\\": \\"DPDK\\", \\"simulator\\": true}";
  strncpy(buffer, text, capacity);
  return sizeof text;
}
"""


@dataclass(frozen=True)
class Fake:
    """The package is in `site`, which is to be on the path of a Python."""

    site: Path

    @property
    def root(self) -> Path:
        return self.site / "torch"

    @property
    def identity(self) -> Identity:
        torch = {**graft_hook.torch_of(str(self.root)), "cuda": None, "cxx11_abi": True}
        libraries = graft_hook.fingerprints(str(self.root))
        return Identity(torch, libraries, f"v{VERSION}", "DPDK", "/opt/switchml", cuda=False)

    def graft(self, path: Path, *arguments: str, **changes: object) -> Path:
        """Compile a graft with additional compiler arguments, or another identity."""
        identity = dataclasses.replace(self.identity, **changes)  # type: ignore[arg-type]
        text = graft_hook.MARK.decode() + identity.to_json()
        compile_shared(path, _GRAFT % json.dumps(text), *arguments)
        (path.parent / render.LIBRARY).write_text("its delegate")
        return path


def make(site: Path, version: str = VERSION, commit: str = COMMIT) -> Fake:
    root = site / "torch"
    (root / "distributed").mkdir(parents=True)
    (root / "lib").mkdir()
    (root / "__init__.py").write_text(_INIT)
    (root / "_C.py").write_text(_C)
    (root / "distributed" / "__init__.py").write_text(_DISTRIBUTED)
    (root / "version.py").write_text(
        f"__version__ = {version!r}\ncuda = None\ngit_version = {commit!r}\n"
    )
    for name in graft_hook.LIBRARIES:
        (root / "lib" / name).write_text(f"{name} of {version}")
    for name in ("ATen/ATen.h", "gloo/allreduce.h"):
        (root / "include" / name).parent.mkdir(parents=True)
        (root / "include" / name).touch()
    return Fake(site)


def compile_shared(path: Path, code: str, *arguments: str) -> None:
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", *arguments, "-o", str(path)]
    subprocess.run(command, input=code, text=True, check=True)


def venv(directory: Path, base: Path | str = sys.executable) -> Path:
    """Make a virtual environment without pip; return its interpreter."""
    subprocess.run([base, "-m", "venv", "--without-pip", directory], check=True)
    return directory / "bin" / "python"


def site_of(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.check_output([python, "-c", code], text=True).strip()
    return python.parents[1] / os.path.relpath(found, python.parents[1])


def python_run(python: Path | str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run an interpreter with no variables of ours but `env`."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("SWITCHML_", "PYTHON"))}  # fmt: skip
    return captured([python, *arguments], env={**kept, **env}, cwd="/", stdin=subprocess.DEVNULL)


BROKEN = "torch cannot be imported"


@dataclass(frozen=True)
class Site:
    """A virtual environment with a torch, and a graft for that."""

    python: Path
    torch: Fake
    library: Path

    @property
    def package(self) -> Path:
        return self.torch.site / "switchml_graft"

    @property
    def path_file(self) -> Path:
        return self.torch.site / "switchml_graft.pth"

    def install(self, *arguments: str, code: int = 0) -> str:
        base = ["graft", "install", "--torch", str(self.python)]
        return tool(*base, str(self.library), *arguments, code=code).stderr

    def uninstall(self, code: int = 0) -> str:
        return tool("graft", "uninstall", "--torch", str(self.python), code=code).stderr

    def status(self) -> tuple[dict[str, Any], str]:
        """Return the data, and the lines."""
        done = command.run("status", self.python, "--json")
        data: dict[str, Any] = json.loads(done.stdout)
        sound = not data["problems"] and data["state"] not in {"no torch", BROKEN}
        assert done.returncode == (0 if sound else 3), done.stderr
        lines = command.run("status", self.python)
        assert lines.returncode == done.returncode
        return data, lines.stdout

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return python_run(self.python, *arguments, **env)

    def saved(self) -> Iterator[Site]:
        """Yield this environment; remove its graft afterwards."""
        before = {path: path.read_bytes() for path in self.torch.root.rglob("*") if path.is_file()}
        yield self
        for path, content in before.items():
            path.write_bytes(content)
        shutil.rmtree(self.package, ignore_errors=True)
        self.path_file.unlink(missing_ok=True)


def make_site(directory: Path) -> Site:
    python = venv(directory / "venv")
    torch = make(site_of(python))
    return Site(python, torch, torch.graft(directory / "lib.so"))
