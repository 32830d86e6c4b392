"""Commands of the pages, each block in a shell of its own, with the simulator."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from support import command
from support.page_shell import Shell
from support.pages import ROOT, Block, blocks, run_by

from patchgen.extras.train.result_text import NOTHING

pytestmark = pytest.mark.pages

OWN = run_by(__file__)
PAGE = ROOT / "docs" / "plugin.md"
LAUNCHER = "/path/to/python3 -m torch.distributed.run"
APART = (
    LAUNCHER,
    "graft build",
    "-m pytest",
    "plugin build",
    "rebuild dist",
    "apply  pytorch",
    "switchml-patch switch ",
    "plugin install",
    "pip install",
)
"""Words of blocks that have a test of their own below."""


def block(word: str) -> Block:
    """Return the block of this file that has a word."""
    (found,) = (one for one in OWN if word in one.text)
    return found


@pytest.mark.parametrize(
    "block", [one for one in OWN if not any(word in one.text for word in APART)], ids=str
)
def test_commands_for_a_torch_with_the_plugin(plugged: Shell, block: Block) -> None:
    """Where the block starts ranks, SwitchML sums for them."""
    assert NOTHING not in plugged.run(block.text)


def test_commands_that_install_the_plugin(bare: Shell) -> None:
    """And those that start ranks with it, for the page's own script, or make it again."""
    (script,) = (one for one in blocks(PAGE) if one.language == "python")
    (bare.directory / "train.py").write_text(script.text)
    bare.run(block("plugin install").text)
    bare.run(block("plugin build").text)
    assert bare.run(block("rebuild dist").text).count("identical bytes\n") == 2
    output = bare.run(block(LAUNCHER).text)
    found = re.findall(r"rank \d: [^r\n]*", output)  # one may end its line within the other's
    assert sorted(found) == [f"rank {rank}: 2.0, 1 delegated" for rank in (0, 1)]


def test_commands_by_which_pip_builds_the_plugin(bare: Shell) -> None:
    bare.run(block("pip install").text)


def test_commands_of_a_graft(pinned: Shell, patched: Path) -> None:
    """Its source is here, since it cannot be fetched."""
    pinned.run(block("graft build").text.replace("graft build", f"graft build --source {patched}"))


def test_commands_of_the_patch_alone(pinned: Shell, patched: Path) -> None:
    """The checkout is the system's release."""
    tree = shutil.copytree(patched, pinned.directory / "pytorch")
    assert command.run("revert", tree).returncode == 0
    pinned.run(block("apply  pytorch").text)


def test_commands_in_the_checkout(plugged: Shell) -> None:
    """Its files are not written: the directory of the build is another one."""
    text = block("-m pytest").text.replace("-B build/delegate", '-B "$OLDPWD/delegate"')
    plugged.run(f"cd {ROOT}\n" + text.replace(".venv/bin/python", f"{sys.executable} -B"))


def test_the_switch_listens(plugged: Shell) -> None:
    plugged.serve(block("switchml-patch switch ").text, "listening on ")
