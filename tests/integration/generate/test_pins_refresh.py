"""`pins refresh` in a copy of the package, whose pins are of commits that the test makes."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import miniature
from support.trees import git
from support.waiting import captured

import patchgen
from patchgen.core.patch import pins

SHIPPED = pins.shipped()


@dataclass(frozen=True)
class Copy:
    """A copy of the package, and a clone that has the commits of its pins."""

    root: Path
    clone: Path

    @property
    def templates(self) -> Path:
        return self.root / "patchgen/templates"

    def file(self, name: str) -> Path:
        return self.root / f"patchgen/core/patch/pins/{name}.json"

    def move(self, pin: pins.Pin) -> None:
        """Commits what is in the clone, as the commit of a pin."""
        git(self.clone, "add", "-A")
        git(self.clone, "commit", "-qm", pin.name, "--allow-empty")
        moved = pin._replace(commit=git(self.clone, "rev-parse", "HEAD"), recipe={"disk": 7})
        self.file(pin.name).write_text(pins.to_json(moved))

    def run(self, *arguments: str, code: int = 0) -> str:
        environ = {**os.environ, "PYTHONPATH": str(self.root)}
        command = [sys.executable, "-m", "patchgen", *arguments]
        done = captured(command, cwd=self.root, env=environ)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def refresh(self, code: int = 0) -> str:
        return self.run(
            "pins", "refresh", "--mirror", str(self.clone), "--cache", "cache", code=code
        )

    def contents(self) -> dict[str, bytes]:
        return {pin.name: self.file(pin.name).read_bytes() for pin in SHIPPED}


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(patchgen.__file__).parent, tmp_path / "patchgen", ignore=ignored)
    made = Copy(tmp_path, tmp_path / "clone")
    made.clone.mkdir()
    git(made.clone, "init", "-q")
    for pin in SHIPPED:
        made.move(miniature.write(made.clone, pin.layout, pin.name))
    return made


def test_a_changed_hook_is_one_command(copy: Copy) -> None:
    assert "made again" not in copy.refresh()
    before = copy.contents()
    with (copy.templates / "patch/hooks/delegate.inc.j2").open("a") as hook:
        hook.write("    // another line of the hook\n")
    assert "pins refresh" in copy.run("generate", "--pytorch", "v1.7.1", "-o", "x.patch", code=1)
    message = copy.refresh()
    for pin in SHIPPED:
        assert f"\n{pin.name}: made again\n" in message
        made = pins.load(str(copy.file(pin.name)))
        old = pins.from_json(before[pin.name].decode())
        changed = {name for name, a, b in zip(pins.Pin._fields, made, old) if a != b}
        assert changed == {"hooks_sha256", "files"}
        copy.run("generate", "--pytorch", pin.name, "-o", "x.patch")
        assert "+    // another line of the hook\n" in (copy.root / "x.patch").read_text()
        git(copy.clone, "checkout", "-q", made.commit)
        like = ("--layout", str(copy.file(pin.name)), "--name", pin.name, "--commit", made.commit)
        copy.run("pins", "make", str(copy.clone), *like, "-o", "made.json")
        assert pins.load(str(copy.root / "made.json"))._replace(recipe=made.recipe) == made


def test_a_drifted_anchor_is_shown_before_and_now(copy: Copy) -> None:
    """The pin is moved to a commit in which a line of it is another, and a line stands before."""
    pin = pins.load(str(copy.file("v2.6.0")))
    (delegate,) = (one for one in pin.anchors if one.name == "delegate")
    (hook,) = (one for file in pin.files for one in file.hooks if one.name == "delegate")
    path = copy.clone / delegate.file
    source = path.read_text()
    line = hook.before[-1]
    assert source.count(f"{line}\n") == 1
    path.write_text("// a new line\n" + source.replace(line, f"{line} // renamed"))
    copy.move(pin)
    before = copy.contents()
    message = copy.refresh(code=3)
    head, problem = message.split("\nerror: v2.6.0:\n")
    first, shown = problem.split(f"{delegate.file}: the anchor of hook delegate matches 0 times")
    assert first.startswith(
        f"{delegate.file}: the anchor of hook allreduce matches 0 times, not once"
    )
    was, now = shown.split("  now:\n")
    assert was.startswith(", not once\n  before:\n")
    assert f"{hook.line:>9}  {line}\n" in was
    assert f"{hook.line + 1:>9}  {line} // renamed\n" in now
    assert head.count("getting 2 files") == len(SHIPPED)
    assert copy.contents() == before
