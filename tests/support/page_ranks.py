"""The blocks of Python of the pages on real ranks: those for the plugin, or for a graft."""

from __future__ import annotations

from support.launcher import Launcher
from support.pages import Block, all_blocks
from support.torch import results


def scripts(*, plugin: bool) -> list[Block]:
    """Return a block of Python to run, for the plugin or for a graft."""
    return [
        block
        for block in all_blocks()
        if block.language == "python"
        and block.unmarked
        and ("torch_switchml" in block.text) == plugin
    ]


def check_script(launch: Launcher, block: Block) -> None:
    """Check that the block ends well on all ranks; with a process group, rank 0 delegates."""
    hosts = 2
    ranks = hosts * 2 if block.page.stem == "hosts" else hosts
    local = ranks // hosts
    first = results(
        launch(
            "page_cases:block",
            ranks,
            arguments={"source": block.text},
            config={"rank": "auto", "num_workers": hosts},
            env={"LOCAL_WORLD_SIZE": str(local)},
            rank_env={rank: {"SWITCHML_HOST": str(rank // local)} for rank in range(ranks)},
        )
    )[0]
    if "init_process_group" in block.text:
        assert first["calls"] > 0, first
