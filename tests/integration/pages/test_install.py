"""The README's first commands, in a copy of the checkout, from pip's registry."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from support.pages import ROOT, Block, run_by
from support.trees import git
from support.waiting import captured

pytestmark = pytest.mark.pages


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("checkout")
    for name in git(ROOT, "ls-files", "-z").strip("\0").split("\0"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name, follow_symlinks=False)
    return copy


@pytest.mark.parametrize("block", run_by(__file__), ids=str)
def test_commands_in_a_checkout(checkout: Path, block: Block) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    path = f"{Path(sys.base_prefix) / 'bin'}:{kept['PATH']}"
    command = ["sh", "-euc", block.text]
    done = captured(command, cwd=checkout, env={**kept, "PATH": path}, timeout=None)
    assert done.returncode == 0, done.stdout + done.stderr
