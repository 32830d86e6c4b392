"""Gloo's name for the plugin: scripts that know nothing of SwitchML."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.version import Version
from support import messages, programs
from support.launcher import Launcher
from support.torch import Plugin, version_of
from support.waiting import captured

from patchgen.system.ports import free_port

DOCS = Path(__file__).parents[3] / "docs"
ON = {"SWITCHML_FOR_GLOO": "1"}
STOCK = ["no delegated as gloo,gloo,gloo,gloo"] * 2
TWO_RANKS = """
import os
import torch.distributed

pid = os.fork()
os.environ["RANK"] = "1" if pid == 0 else "0"
"""
WAITING = """
assert pid == 0 or os.waitpid(pid, 0)[1] == 0
"""


@dataclass(frozen=True)
class Ranks:
    """Two ranks of a script, which one interpreter becomes once it has imported torch."""

    launch: Launcher
    plugin: Plugin

    def __call__(self, *arguments: str, **environ: str) -> tuple[list[str], str]:
        run = self.launch.prepare(1, config={"rank": "auto", "num_workers": "auto"})
        (run / "script.py").write_text(TWO_RANKS + programs.read("names_gloo") + WAITING)
        given = {"WORLD_SIZE": "2", "MASTER_PORT": str(free_port()), **environ}
        environ = self.launch.environment(given, preload=False)
        command = [str(self.plugin.python), "-I", "../script.py", *arguments]
        (both,) = self.launch.collect([self.launch.start(command, run / "0", environ)], 240)
        assert both.code == 0, both
        return re.findall(r"rank \d: (.*)", both.out), both.err


@pytest.fixture
def ranks(launch: Launcher, plugin: Plugin, torch: Path) -> Ranks:
    if Version(version_of(torch)) < Version("2.5"):
        pytest.skip("torch loads backends of others since 2.5: name another one by TORCH")
    return Ranks(launch, plugin)


def test_an_isolated_script_that_names_gloo(ranks: Ranks) -> None:
    """Without the variable, an installed plugin changes nothing."""
    backends = ("gloo", "cpu:gloo", "")
    stock, err = ranks(*backends, SWITCHML_REQUIRE="")
    assert [line.split()[0] for line in stock] == ["no"] * 6
    assert stock.count(STOCK[0]) == 2
    assert "switchml" not in err
    message, err = ranks(*backends, **ON)
    assert sorted(message) == sorted(line.replace("no", "2") for line in stock)
    assert err.count(messages.DELEGATES) == len(backends)


def test_the_checks_of_torch_have_a_gloo_of_their_own(ranks: Ranks) -> None:
    message, err = ranks("gloo", **ON, TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert message == ["2 delegated as gloo,gloo,gloo,gloo"] * 2
    assert err.count(messages.GROUP.format(2)) == 3, "one for each group"


def test_a_plugin_that_is_for_another_torch(ranks: Ranks, stale: Plugin) -> None:
    message, err = Ranks(ranks.launch, stale)("gloo", **ON)
    assert message == STOCK
    lines = [line for line in err.splitlines() if "switchml" in line]
    assert len(lines) == 2, "one line a rank"
    for line in lines:
        assert "switchml: warning: SWITCHML_FOR_GLOO is set, but torch_switchml was built" in line


@pytest.mark.usefixtures("ranks")
def test_a_plugin_that_is_required_and_for_another_torch(stale: Plugin) -> None:
    code = (
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
    )
    done = captured([stale.python, "-I", "-c", code], env={**ON, "SWITCHML_REQUIRE": "1"})
    assert done.returncode == 1
    why = "RuntimeError: SWITCHML_REQUIRE is set, but torch_switchml was built for"
    assert why in done.stderr


@pytest.mark.usefixtures("ranks")
def test_an_import_where_torch_loads_no_backends(plugin: Plugin) -> None:
    code = (
        "import torch, torch.distributed as dist\n"
        "gloo = dist.ProcessGroupGloo\n"
        "import torch_switchml\n"
        "assert dist.distributed_c10d.ProcessGroupGloo is dist.ProcessGroupGloo is not gloo\n"
    )
    environ = {**ON, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = captured([plugin.python, "-c", code], env=environ)
    assert (done.returncode, done.stderr) == (0, "")


def test_line_that_guards_a_job(light: Plugin, torch: Path, tmp_path: Path) -> None:
    """It is that of plugin.md."""
    line = 'python3 -c "import torch_switchml" || exit\n'
    assert f"\n    {line}" in (DOCS / "plugin.md").read_text()
    for python, out in ((light.python, "goes on\n"), (torch, "")):
        (tmp_path / "python3").unlink(missing_ok=True)
        programs.script(tmp_path / "python3", f'#!/bin/sh\nexec {python} "$@"\n')
        done = captured(["/bin/sh", "-c", f"{line}echo goes on"], env={"PATH": str(tmp_path)})
        assert (done.stdout, done.returncode == 0) == (out, bool(out)), done.stderr


@pytest.mark.usefixtures("ranks")
def test_srun_is_understood_before_there_is_a_group(plugin: Plugin) -> None:
    code = "import os, torch; print(os.environ.get('RANK'), os.environ.get('WORLD_SIZE'))"
    srun = {"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SWITCHML_FOR_GLOO": "0"}
    for environ, message in (({**srun, **ON}, "1 4\n"), (srun, "None None\n")):
        out = subprocess.check_output([plugin.python, "-I", "-c", code], env=environ, text=True)
        assert out == message
