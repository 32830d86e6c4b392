"""What docs show of the plugin runs as it stands there."""

from __future__ import annotations

import re
import shlex

import pytest
from support.launcher import Launcher
from support.page_ranks import check_script, scripts
from support.pages import ROOT, Block, blocks
from support.torch import Plugin

from patchgen.system.ports import free_port


@pytest.mark.parametrize("block", scripts(plugin=True), ids=str)
def test_a_script_delegates(launch: Launcher, block: Block) -> None:
    check_script(launch, block)


def test_the_launcher_of_the_page_delegates(launch: Launcher, plugin: Plugin) -> None:
    """docs/plugin.md: train.py, and the command that starts its ranks."""
    page = list(blocks(ROOT / "docs" / "plugin.md"))
    (script,) = (block for block in page if block.language == "python")
    (block,) = (block for block in page if ".run --nproc_per_node 2 train.py" in block.text)
    export, line = block.commands
    run = launch.prepare(2, config={"rank": "auto", "num_workers": "auto"})
    (run / "train.py").write_text(script.text)
    environ = dict(word.split("=") for word in shlex.split(export)[1:])
    assert environ["SWITCHML_CONFIG"] == "/tmp/switchml/switchml.cfg"  # noqa: S108  # the page's
    environ["SWITCHML_CONFIG"] = str(run / "1" / "switchml.cfg")
    _python, *arguments = shlex.split(line)
    place = arguments.index("torch.distributed.run") + 1
    arguments[place:place] = ["--master_port", str(free_port())]
    environ = launch.environment(environ, preload=False)
    started = launch.start([str(plugin.python), *arguments], run, environ)
    (done,) = launch.collect([started], 240)
    assert done.code == 0, done.err
    output = re.findall(r"rank \d: [^r\n]*", done.out)  # one may end its line within the other's
    assert sorted(output) == [f"rank {rank}: 2.0, 1 delegated" for rank in (0, 1)]
