"""A shell for the commands of a block, with paths of the tests in place of the reader's."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from patchgen.system.ports import free_port
from support.pages import ROOT, blocks
from support.simulator import FLAGS
from support.torch import located
from support.waiting import ENOUGH, captured

SCRIPTS = {"hello.py": "all_reduce", "train.py": "DistributedDataParallel"}
"""Scripts of docs/quickstart.md, and a word that only one of them has."""


@dataclass(frozen=True)
class Shell:
    """Directory, environment and paths of a reader."""

    directory: Path
    environ: Mapping[str, str]
    paths: Mapping[str, Path]
    """Paths by the names that the pages have for them."""

    def command(self, text: str) -> list[str]:
        for name, path in self.paths.items():
            text = text.replace(name, shlex.quote(str(path)))
        return ["bash", "-euc", text]

    def run(self, text: str) -> str:
        """Run commands, each of which must succeed, and return their output."""
        done = captured(
            self.command(text), cwd=self.directory, env={**self.environ}, timeout=ENOUGH
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def serve(self, text: str, ready: str) -> None:
        """Run a command until it prints a line that begins so; SIGTERM then ends it with 0."""
        with subprocess.Popen(
            self.command(f"exec {text}"), cwd=self.directory, env={**self.environ},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as running:  # fmt: skip
            assert running.stdout is not None
            begun = any(line.startswith(ready) for line in running.stdout)
            running.send_signal(signal.SIGTERM)
            assert (begun, running.wait(ENOUGH)) == (True, 0)


def make_environment(torch: Path, directory: Path) -> Path:
    """Make a virtual environment with the packages of a torch; return its interpreter."""
    subprocess.run([torch, "-m", "venv", "--without-pip", directory], check=True)
    (site,) = directory.glob("lib/python*/site-packages")
    (site / "torch.pth").write_text(f"{located(torch).parent}\n")
    return directory / "bin" / "python3"


def make_shell(directory: Path, python: Path, cache: Path, paths: Mapping[str, Path]) -> Shell:
    """Return a shell in a directory with the pages' scripts, where `python3` is an interpreter."""
    page = [block.text for block in blocks(ROOT / "docs" / "quickstart.md")]
    for name, word in SCRIPTS.items():
        (script,) = (text for text in page if word in text and text.startswith("import "))
        (directory / name).write_text(script)
    programs = directory / "bin"
    programs.mkdir()
    for name, program in {
        "python3": python,
        "switchml-patch": Path(sys.executable).with_name("switchml-patch"),
    }.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(str(program))} "$@"\n')
        (programs / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHML_")}
    environ = {
        **kept,
        "PATH": f"{programs}:{kept['PATH']}",
        "XDG_CACHE_HOME": str(cache),
        "CXXFLAGS": FLAGS.replace("-Werror ", ""),
        "CMAKE_BUILD_TYPE": "None",
        "GLOO_SOCKET_IFNAME": "lo",
        "PET_MASTER_PORT": str(free_port()),
    }
    return Shell(
        directory, environ, {"/path/to/python3": python, "/path/to/python": python, **paths}
    )
