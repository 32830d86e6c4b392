"""The blocks of commands that docs show run, unless they say why not."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from support import command
from support.pages import Block, all_blocks


@pytest.mark.parametrize(
    "block", [one for one in all_blocks() if one.unmarked and one.commands], ids=str
)
def test_a_block_of_commands_runs(block: Block, tmp_path: Path) -> None:
    """What the page shows of their output is what they print; gradients.npy is the reader's."""
    np.save(tmp_path / "gradients.npy", np.ones((2, 1000), np.float32))
    shown = re.split(r"^\$ .*\n", block.text, flags=re.MULTILINE)[1:]
    for number, line in enumerate(block.commands):
        done = command.run(*shlex.split(line, comments=True)[1:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        if shown:
            assert done.stdout == shown[number]
