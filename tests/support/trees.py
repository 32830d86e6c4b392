"""Runs git and switchml-patch on trees that the tests write."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from patchgen.core.patch import pins
from support import command, miniature

FLAGS = ["--dpdk", "--mlx5", "--dev-root", "/opt/dev root"]


def git(cwd: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=cwd, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(errors="surrogateescape").strip()


def tool(
    *arguments: str, cwd: Path | str = "/", code: int = 0, **environ: str
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environ}
    done = command.run(*arguments, cwd=cwd, env=env, errors="surrogateescape")
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


@dataclass(frozen=True)
class Tree:
    root: Path
    pin: pins.Pin
    pin_file: str

    def run(self, name: str, *arguments: str, code: int = 0) -> str:
        done = tool(name, str(self.root), "--pytorch", self.pin_file, *arguments, code=code)
        return done.stdout + done.stderr

    def state(self) -> str:
        done = command.run("status", self.root, "--pytorch", self.pin_file, "--json")
        data = json.loads(done.stdout)
        assert done.returncode == (0 if data["state"] in {"clean", "patched"} else 3)
        return str(data["state"])

    def snapshot(self) -> dict[str, tuple[bytes, int, int]]:
        """Return content, modification time and mode of every file."""
        return {
            os.path.relpath(path, self.root): (
                path.read_bytes(),
                path.stat().st_mtime_ns,
                path.stat().st_mode,
            )
            for path in self.root.rglob("*")
            if path.is_file() and ".git" not in path.parts
        }

    def contents(self) -> dict[str, bytes]:
        return {name: value[0] for name, value in self.snapshot().items()}


def make(root: Path, layout: str = "c10d-lib") -> Tree:
    root.mkdir(parents=True, exist_ok=True)
    pin = miniature.write(root, layout)
    pin_file = root.parent / "pin.json"
    pin_file.write_text(pins.to_json(pin))
    return Tree(root, pin, str(pin_file))


def commit(root: Path) -> None:
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "base")


def generate(tree: Tree, *flags: str) -> str:
    output = str(tree.root.parent / "x.patch")
    tool("generate", *(flags or FLAGS), "--pytorch", tree.pin_file, "-o", output)
    return output
