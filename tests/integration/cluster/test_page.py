"""The commands of docs/cluster.md, as they stand there, on its hosts: head and other.

Their switchml.cfg is the one that the page makes, and train.py is a small training.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import cluster, mpirun, slurm
from support.pages import ROOT, Block, blocks
from support.waiting import ENOUGH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from support.torch import Plugin

OWN = [
    block
    for block in blocks(ROOT / "docs" / "cluster.md")
    if block.by and (ROOT / block.by).samefile(__file__)
]
# An address that the page names is that of the host of its command.
ADDRESSES = {"head": "10.0.0.9", "other": "10.0.0.10"}
RANKS, EACH = 4, 2


def program(block: Block) -> str:
    """Program that a block starts, with the command where it is the tool."""
    words = block.commands[-1].split()
    return " ".join(words[: 2 if words[0] == "switchml-patch" else 1])


@dataclass(frozen=True)
class Site:
    """Hosts of the page, where its switchml.cfg is in /etc."""

    hosts: list[cluster.Host]
    env: Mapping[str, str]
    nodes: slurm.Slurm

    def start(self, host: cluster.Host, text: str, directory: Path) -> subprocess.Popen[str]:
        """Starts a shell with the text of a block."""
        return subprocess.Popen(
            host.command("sh", "-euc", text), cwd=directory, env={**self.env},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip


def run_on_each(site: Site, block: Block, directory: Path) -> None:
    """Runs the block on the first host, and on the other with the other number."""
    texts = [block.text, block.text.replace("--node-rank 0", "--node-rank 1")]
    started = [site.start(host, text, directory) for host, text in zip(site.hosts, texts)]
    told = [one.communicate(timeout=ENOUGH)[0] for one in started]
    assert [one.returncode for one in started] == [0, 0], told


def run_in_slurm(site: Site, block: Block, directory: Path) -> None:
    done = site.nodes.run("sh", "-euc", block.text, cwd=directory, env=site.env)
    assert done.returncode == 0, done.stderr


def run_by_mpirun(site: Site, block: Block, directory: Path) -> None:
    """Here, no ssh leads to the other host, and the user is root."""
    agent = mpirun.make_agent(site.hosts[1], directory)
    own = {"OMPI_MCA_plm_rsh_agent": str(agent), "OMPI_MCA_btl": "^openib", **mpirun.ROOT}
    started = replace(site, env={**site.env, **own}).start(site.hosts[0], block.text, directory)
    told = started.communicate(timeout=ENOUGH)[0]
    assert started.returncode == 0, told


STARTERS: Mapping[str, Callable[[Site, Block, Path], None]] = {
    "switchml-patch run": run_on_each,
    "torchrun": run_on_each,
    "srun": run_in_slurm,
    "mpirun": run_by_mpirun,
}
SWITCH = "switchml-patch simulator"


def text_with(words: str) -> str:
    (block,) = (block for block in OWN if words in block.text)
    return block.text


@pytest.fixture(scope="module")
def site(plugin: Plugin, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The hosts, while the switch of the page runs on the first one."""
    directory = tmp_path_factory.mktemp("page")
    programs, etc, opt = (directory / name for name in ("bin", "etc", "opt"))
    programs.mkdir()
    opt.mkdir()
    (programs / "switchml-patch").symlink_to(Path(sys.executable).with_name("switchml-patch"))
    (programs / "torchrun").write_text('#!/bin/sh\nexec python3 -m torch.distributed.run "$@"\n')
    (programs / "torchrun").chmod(0o755)
    subprocess.run(["cp", "-a", "/etc", etc], check=True)
    env = cluster.environment(XDG_CACHE_HOME=str(cache))
    env["PATH"] = f"{programs}:{plugin.python.parent}:{env['PATH']}:/usr/sbin:/sbin"
    with cluster.two_hosts(ADDRESSES, directory, "ens1f0") as found:
        shutil.copy(directory / "hosts", etc / "hosts")
        hosts = [replace(host, binds={"/etc": etc, "/opt": opt}) for host in found]
        with slurm.running(hosts) as nodes:
            made = Site(hosts, env, nodes)
            switch = made.start(hosts[0], text_with(f"{SWITCH} serve"), directory)
            try:
                assert switch.stdout is not None
                assert "listening on 10.0.0.9:50099\n" in iter(switch.stdout.readline, "")
                install = made.start(hosts[0], text_with(f"{SWITCH} install"), directory)
                told = install.communicate(timeout=ENOUGH)[0]
                assert install.returncode == 0, told
                shutil.copy(opt / "switchml" / "switchml.cfg", etc)
                yield made
            finally:
                os.killpg(switch.pid, signal.SIGTERM)
                switch.communicate()


def test_each_block_has_a_way_to_run_it() -> None:
    for block in OWN:
        assert program(block) in {*STARTERS, SWITCH}, block
    assert {program(block) for block in OWN} == {*STARTERS, SWITCH}


@pytest.mark.cluster
@pytest.mark.parametrize("block", [one for one in OWN if program(one) != SWITCH], ids=str)
def test_a_block_trains_on_two_hosts(site: Site, tmp_path: Path, block: Block) -> None:
    (tmp_path / "train.py").symlink_to(cluster.TRAINING)
    STARTERS[program(block)](site, block, tmp_path)
    found = cluster.read_records(tmp_path, RANKS)
    cluster.check_trained(found, EACH)
    assert [one["host"] for one in found] == [name for name in ADDRESSES for _ in range(EACH)]
