"""Toolchain of a build: interpreter, compilers and programs, with their versions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from patchgen.system import files, interpreter
from patchgen.system.native import tools
from patchgen.system.process import LIMIT, run

_PACKAGES = ("numpy", "setuptools", "wheel", "PyYAML", "typing_extensions", "cffi")
_ACTIVATE = """
for script in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do
  [ ! -e "$script" ] || . "$script" >&2
done
env -0
"""


@dataclass(frozen=True)
class Toolchain:
    """Programs of a build, with paths and versions."""

    python: str
    python_version: str
    soabi: str
    packages: Mapping[str, str]
    programs: Mapping[str, str]
    """First line of each program's --version, by name; missing ones are left out."""
    compiler: str
    """Path of the C++ compiler."""
    c_compiler: str
    archives: Sequence[str] = ()
    """URLs of the archives of an image's Debian packages; empty outside an image."""

    @property
    def identity(self) -> str:
        """SHA-256 of all versions; objects of another toolchain are not reused."""
        return files.digest(asdict(self))


def find(python: str, environ: Mapping[str, str]) -> Toolchain:
    """Return the toolchain of an interpreter, with PATH, CC, CXX and CUDA_HOME of `environ`.

    Raises:
        ToolError: the interpreter or the compiler does not run.
    """
    answer = interpreter.ask(python, environ, packages=_PACKAGES, flags=interpreter.PLAIN)
    compiler = tools.find_compiler("CXX", environ)
    c_compiler = tools.find_compiler("CC", environ)
    programs = {
        "c++": tools.ask_version(compiler, environ),
        "cc": tools.ask_version(c_compiler, environ),
        **tools.ask_versions(("cmake", "ninja"), environ),
    }
    nvcc = os.path.join(environ.get("CUDA_HOME", ""), "bin", "nvcc")
    if environ.get("USE_CUDA", "0") != "0" and os.path.exists(nvcc):
        programs["nvcc"] = tools.ask_version([nvcc], environ, -1)
    return Toolchain(
        python=python,
        python_version=answer.version,
        soabi=answer.soabi or "",
        packages=dict(answer.packages),
        programs=programs,
        compiler=compiler[0],
        c_compiler=c_compiler[0],
        archives=tools.read_archives(),
    )


def activated(prefix: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment after the activation scripts of a conda prefix.

    Raises:
        ToolError: a script failed.
    """
    before = {**environ, "CONDA_PREFIX": prefix}
    bash = shutil.which("bash") or "/bin/bash"
    answer = run(
        [bash, "--noprofile", "--norc", "-c", _ACTIVATE], cwd=prefix, env=before, limit=LIMIT
    )
    pairs = (os.fsdecode(entry).partition("=") for entry in answer.split(b"\0") if entry)
    after = {name: value for name, _, value in pairs}
    return {name: value for name, value in after.items() if name not in ("_", "SHLVL", "PWD")}
