"""`switchml-patch run` with the plugin: a script that names gloo, or nothing, is delegated."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from support import messages, programs
from support.torch import Plugin
from support.waiting import captured


def test_an_unchanged_script_on_three_ranks(
    plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SWITCHML_CONFIG", "SWITCHML_DISABLE", "PYTHONPATH", "TORCH_DISTRIBUTED_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "train.py").write_text(programs.read("unchanged"))
    run = [sys.executable, "-m", "patchgen", "run", "--workers", "3", "--report", "report.json"]
    done = captured([*run, "--torch", plugin.python, "train.py"], cwd=tmp_path, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] done" for rank in range(3)]
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["variant"], report["simulated"]) == ("plugin", True)
    for rank in report["ranks"]:
        assert rank["final"]
        assert rank["report"]["calls"] >= 6
        assert messages.DELEGATES in rank["group"]
    assert [rank["report"]["fallbacks"]["group"] for rank in report["ranks"][:2]] == [1, 1]


ONE_SUM = """
import torch, torch_switchml
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(3))
dist.destroy_process_group()
"""


def test_another_sitecustomize_in_front(light: Plugin, tmp_path: Path) -> None:
    """As that of opentelemetry-instrument, which runs no other one."""
    (tmp_path / "front").mkdir()
    (tmp_path / "front" / "sitecustomize.py").touch()
    (tmp_path / "train.py").write_text(ONE_SUM)
    front = ["env", "sh", "-c", 'PYTHONPATH=front:$PYTHONPATH exec "$0" train.py']
    run = [sys.executable, "-m", "patchgen", "run", "--require", "--workers", "2"]
    done = captured([*run, "--torch", light.python, "--", *front, light.python], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^1 +[1-9]", done.stderr), done.stderr


OTHERS = """
import torch
from torch.distributed import HashStore, ProcessGroup, ProcessGroupGloo

group = ProcessGroup(HashStore(), 0, 1)
kind = ProcessGroup.BackendType.GLOO
group._set_default_backend(kind)
group._register_backend(torch.device("cpu"), kind, ProcessGroupGloo(HashStore(), 0, 1))
group.allreduce([torch.ones(1)]).wait()
del group  # Gloo's thread, which frees the tensor, must not do so while the interpreter ends
"""


def test_a_library_with_groups_of_its_own(plugin: Plugin, tmp_path: Path) -> None:
    (tmp_path / "others.py").write_text(OTHERS)
    (tmp_path / "train.py").write_text("import others\n")
    run = [sys.executable, "-m", "patchgen", "run", "--workers", "1"]
    done = captured([*run, "--torch", plugin.python, "train.py"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "warning: nothing was delegated: others made process groups; SwitchML is in those that "
        "torch.distributed makes"
    )
