"""What `simulator install` says."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from patchgen.cli import main
from patchgen.extras.lab import simulator


def test_the_steps_and_what_can_be_pasted_into_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "archive.a"
    archive.touch()
    monkeypatch.setattr(simulator, "_build", lambda *_, **__: archive)
    prefix = tmp_path / "the user's $HOME"
    done = CliRunner().invoke(main, ["simulator", "install", "-o", str(prefix)])
    assert done.exit_code == 0, done.output
    assert f"installing into {prefix}\n" in done.output
    assignment = done.output.partition("use it with: ")[2].strip()
    assert shlex.split(assignment) == [f"SWITCHML_HOME={prefix}"]
