"""The commands of docs/cluster.md on its hosts: head and other.

Their switchml.cfg is the one that the page makes, and train.py is a small training.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support import cluster, slurm
from support.page_hosts import ADDRESSES, INTERFACE, PageHosts, make_environment
from support.pages import Block, run_by
from support.torch import Plugin
from support.waiting import until

OWN = run_by(__file__)
RANKS, EACH = 4, 2
# Training whose first attempt does not end.
INTERRUPTED = """\
import os, pathlib, runpy, time
if "SLURM_RESTART_COUNT" not in os.environ:
    pathlib.Path("waiting-" + os.environ["SLURM_PROCID"]).touch()
    time.sleep(600)
runpy.run_path("training.py", run_name="__main__")
"""


def program(block: Block) -> str:
    """Program that a block starts, with the command where it is the tool."""
    words = block.commands[-1].split()
    if "#SBATCH" in block.text:
        return "sbatch"
    return " ".join(words[: 2 if words[0] == "switchml-patch" else 1])


@dataclass(frozen=True)
class Site(PageHosts):
    """Hosts of the page, where its switchml.cfg is in /etc, with SLURM."""

    nodes: slurm.Slurm


def run_on_each(site: Site, block: Block, directory: Path) -> None:
    site.run_on_each(block.text, directory)


def run_in_slurm(site: Site, block: Block, directory: Path) -> None:
    done = site.nodes.run("sh", "-euc", block.text, cwd=directory, env=site.env)
    assert done.returncode == 0, done.stderr


def run_as_batch_job(site: Site, block: Block, directory: Path) -> None:
    """The job is told that its time ends, waits in the queue, and trains when it is back."""
    (directory / "train.py").rename(directory / "training.py")
    (directory / "train.py").write_text(INTERRUPTED)
    (directory / "train.sh").write_text(block.text)

    def run(*command: str) -> str:
        done = site.nodes.run(*command, cwd=directory, env=site.env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    job = run("sbatch", "--parsable", "--time=10", "--output=output", "train.sh").strip()
    until(lambda: len([*directory.glob("waiting-*")]) == RANKS)
    run("scancel", "--batch", "--signal=USR1", job)
    until(lambda: "Restarts=1 " in run("scontrol", "show", "job", job))
    until(lambda: "JobState=PENDING" in run("scontrol", "show", "job", job))
    run("scontrol", "update", f"JobId={job}", "StartTime=now")
    until(lambda: "JobState=COMPLETED" in run("scontrol", "show", "job", job))


def run_by_mpirun(site: Site, block: Block, directory: Path) -> None:
    """Here, no ssh leads to the other host, and the user is root."""
    agent = cluster.make_agent(site.hosts[1], directory)
    own = {"OMPI_MCA_plm_rsh_agent": str(agent), "OMPI_MCA_btl": "^openib", **cluster.MPI_ROOT}
    replace(site, env={**site.env, **own}).run(block.text, directory)


STARTERS: Mapping[str, Callable[[Site, Block, Path], None]] = {
    "torchrun": run_on_each,
    "srun": run_in_slurm,
    "sbatch": run_as_batch_job,
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
    etc, opt = directory / "etc", directory / "opt"
    opt.mkdir()
    subprocess.run(["cp", "-a", "/etc", etc], check=True)
    env = make_environment(directory, plugin, cache)
    with cluster.two_hosts(ADDRESSES, directory, INTERFACE) as found:
        shutil.copy(directory / "hosts", etc / "hosts")
        hosts = [replace(host, binds={"/etc": etc, "/opt": opt}) for host in found]
        with slurm.running(hosts) as nodes:
            made = Site(hosts, env, nodes)
            serve, listening = text_with(f"{SWITCH} serve"), "listening on 10.0.0.9:50099"
            with made.serving(hosts[0], serve, directory, listening):
                made.run(text_with(f"{SWITCH} install"), directory)
                shutil.copy(opt / "switchml" / "switchml.cfg", etc)
                yield made


def test_each_block_has_a_way_to_run_it() -> None:
    for block in OWN:
        assert program(block) in {*STARTERS, SWITCH}, block
    assert {program(block) for block in OWN} == {*STARTERS, SWITCH}


@pytest.mark.cluster
@pytest.mark.parametrize("block", [one for one in OWN if program(one) != SWITCH], ids=str)
def test_a_block_trains_on_two_hosts(site: Site, tmp_path: Path, block: Block) -> None:
    (tmp_path / "train.py").symlink_to(cluster.PROGRAM)
    STARTERS[program(block)](site, block, tmp_path)
    found = cluster.read_records(tmp_path, RANKS)
    cluster.check_trained(found, EACH)
    assert [one["host"] for one in found] == [name for name in ADDRESSES for _ in range(EACH)]
