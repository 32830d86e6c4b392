"""`switchml-patch run` with the plugin: a script that names gloo, or nothing, is delegated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.waiting import ENOUGH

if TYPE_CHECKING:
    from pathlib import Path

    from support.torch import Plugin

pytestmark = pytest.mark.integration

SCRIPT = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
dist.init_process_group("gloo")
assert "torch_switchml" in sys.modules
assert dist.get_backend() == "gloo", dist.get_backend()
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(100, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    loss = model(torch.randn(8, 100) * (rank + 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = [None] * world
dist.all_gather_object(weights, [p.tolist() for p in model.parameters()])
assert all(other == weights[0] for other in weights)
dist.monitored_barrier()
everyone = dist.new_group(backend="gloo")
assert dist.get_backend(everyone) == "gloo"
some = dist.new_group([0, 1])
if rank < 2:
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=some)
    assert tensor.tolist() == [2, 2, 2]
del model, optimizer, loss  # they hold the group, whose threads would outlive the interpreter
dist.destroy_process_group()

store = "file://" + os.path.abspath("store")
dist.init_process_group(init_method=store, rank=rank, world_size=world)
tensor = torch.full((10,), rank + 1, dtype=torch.int32)
dist.all_reduce(tensor)
assert tensor.tolist() == [6] * 10
dist.destroy_process_group()
print("done")
"""


def test_an_unchanged_script_on_three_ranks(
    plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SWITCHML_CONFIG", "SWITCHML_DISABLE", "PYTHONPATH", "TORCH_DISTRIBUTED_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "train.py").write_text(SCRIPT)
    run = [sys.executable, "-m", "patchgen", "run", "--workers", "3", "--report", "report.json"]
    done = subprocess.run(
        [*run, "--torch", plugin.python, "train.py"],
        cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False, timeout=ENOUGH,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] done" for rank in range(3)]
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["way"], report["simulated"]) == ("plugin", True)
    for rank in report["ranks"]:
        assert rank["final"]
        assert rank["report"]["calls"] >= 6
        assert "goes to SwitchML" in rank["group"]
    assert [rank["report"]["fallbacks"]["group"] for rank in report["ranks"][:2]] == [1, 1]


OTHERS = """
import torch
from torch.distributed import HashStore, ProcessGroup, ProcessGroupGloo

group = ProcessGroup(HashStore(), 0, 1)
kind = ProcessGroup.BackendType.GLOO
group._set_default_backend(kind)
group._register_backend(torch.device("cpu"), kind, ProcessGroupGloo(HashStore(), 0, 1))
group.allreduce([torch.ones(1)]).wait()
"""


def test_a_library_with_groups_of_its_own(plugin: Plugin, tmp_path: Path) -> None:
    (tmp_path / "others.py").write_text(OTHERS)
    (tmp_path / "train.py").write_text("import others\n")
    run = [sys.executable, "-m", "patchgen", "run", "--workers", "1"]
    done = subprocess.run(
        [*run, "--torch", plugin.python, "train.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=ENOUGH,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "warning: nothing was delegated: others made process groups; SwitchML is in those that "
        "torch.distributed makes"
    )
