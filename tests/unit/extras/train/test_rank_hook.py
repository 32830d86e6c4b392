"""The hook of a rank, beside a stand-in for torch."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import programs
from support.waiting import captured

from patchgen.extras.install.payload import sitecustomize
from patchgen.extras.train.payload import rank_hook

REPORT = """
calls = 0
def report():
    return {"calls": calls, "group": "agreed", "reason": "why"}
"""
BACKEND = """
import torch_switchml
from torch.distributed import distributed_c10d
def register():
    distributed_c10d.made_before = [*distributed_c10d.made]
"""


@dataclass
class Script:
    """A script in an interpreter with the bootstrap and the stand-in."""

    root: Path
    variant: str = "plugin"
    by_rank: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        distributed = self.root / "site-packages" / "torch" / "distributed"
        distributed.mkdir(parents=True)
        (distributed.parent / "__init__.py").touch()
        (distributed / "__init__.py").write_text("from .distributed_c10d import *\n")
        (distributed / "distributed_c10d.py").write_text(programs.read("quick_c10d"))
        (distributed / "switchml.py").write_text(REPORT)
        (self.root / "site-packages" / "torch_switchml.py").write_text(REPORT)
        (self.root / "site-packages" / "torch_switchml_backend.py").write_text(BACKEND)
        (self.root / "site").mkdir()
        (self.root / "ranks").mkdir()
        shutil.copy(sitecustomize.__file__, self.root / "site" / "sitecustomize.py")
        shutil.copy(rank_hook.__file__, self.root / "site" / "switchml_run.py")

    def __call__(self, code: str, *arguments: str, **environ: str) -> str:
        job = {
            "variant": self.variant,
            "root": os.path.realpath(self.root / "site-packages" / "torch"),
            "directory": str(self.root),
            "by_rank": self.by_rank,
        }
        (self.root / "job.json").write_text(json.dumps(job))
        environ = {
            **os.environ,
            "PYTHONPATH": f"{self.root / 'site'}:{self.root / 'site-packages'}",
            "SWITCHML_RUN": str(self.root / "job.json"),
            "RANK": "1",
            "WORLD_SIZE": "2",
            **environ,
        }
        code = f"import torch.distributed as dist\n{code}\n"
        done = captured([sys.executable, "-c", code, *arguments], env=environ, cwd=self.root)
        assert done.stderr == ""
        return done.stdout

    def read_reports(self, *, marks: bool = False) -> list[dict[str, Any]]:
        paths = sorted((self.root / "ranks").iterdir())
        assert all(path.suffix == ".json" for path in paths)
        lines = [json.loads(path.read_text()) for path in paths]
        return [one for one in lines if ("hook" in one) == marks]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    for name in ("SWITCHML_CONFIG", "PYTHONPATH", "PYTHONSTARTUP"):
        monkeypatch.delenv(name, raising=False)
    return Script(tmp_path / "a run")


@pytest.mark.parametrize(
    ("arguments", "environ", "place"),
    [
        ({}, {}, -1),
        ({}, {"RANK": "1"}, 1),
        ({"rank": 0, "world_size": 2}, {"RANK": "1"}, 0),
        ({"rank": -1}, {"RANK": "1"}, 1),
        ({"init_method": "tcp://h:1?rank=4&world_size=5"}, {"RANK": "1"}, 4),
        ({"init_method": "file:///x", "rank": 2}, {"RANK": "x"}, 2),
        ({"init_method": "file:///x"}, {"RANK": "x"}, -1),
    ],
)
def test_the_rank_before_there_is_a_group(
    arguments: dict[str, Any], environ: dict[str, str], place: int
) -> None:
    assert rank_hook.place(arguments, environ) == place


def test_torch_that_was_imported_before(script: Script) -> None:
    """As where another sitecustomize.py stands before, and the plugin activates the hook, twice."""
    places = [script.root / name for name in ("front", "site", "site-packages")]
    places[0].mkdir()
    (places[0] / "sitecustomize.py").touch()
    code = "import switchml_run as hook; [hook.activate() for _ in range(2)]"
    path = ":".join(map(str, places))
    script(f"{code}; dist.init_process_group('gloo')", PYTHONPATH=path)
    (message,) = script.read_reports()
    assert message["outcomes"] == [{"group": "agreed", "reason": "why"}]


@pytest.mark.parametrize(("variant", "made"), [("plugin", "[]"), ("graft", "never")])
def test_the_plugin_is_registered_before_there_is_a_group(
    script: Script, variant: str, made: str
) -> None:
    script.variant = variant
    code = "print(getattr(dist.distributed_c10d, 'made_before', 'never'))"
    assert script(f"dist.init_process_group('gloo'); {code}") == f"{made}\n"


def test_a_wrong_call_raises_what_it_always_did(script: Script) -> None:
    out = script("try: dist.init_process_group(none=1)\nexcept TypeError as error: print(error)")
    assert "got an unexpected keyword argument 'none'" in out
    assert script.read_reports() == []


def test_a_torch_of_an_older_patch_reports_no_reason(script: Script) -> None:
    older = REPORT.replace(', "reason": "why"', "")
    (script.root / "site-packages" / "torch_switchml.py").write_text(older)
    script("dist.init_process_group('gloo')")
    (message,) = script.read_reports()
    assert message["outcomes"] == [{"group": "agreed", "reason": ""}]


@pytest.mark.parametrize("end", ["", "import os; os._exit(0)", "raise SystemExit"])
@pytest.mark.parametrize("variant", ["plugin", "graft", "stock"])
def test_the_last_word_of_a_rank(script: Script, variant: str, end: str) -> None:
    script.variant = variant
    module = "torch_switchml" if variant == "plugin" else "torch.distributed.switchml"
    script(f"dist.init_process_group('gloo'); import {module} as m; m.calls = 5\n{end}")
    (message,) = script.read_reports()
    report = None if variant == "stock" else {"calls": 5, "group": "agreed", "reason": "why"}
    outcomes = [] if variant == "stock" else [{"group": "agreed", "reason": "why"}]
    assert message.pop("pid") > 0
    assert message == {
        "rank": 1, "world": 2, "backend": "gloo", "outcomes": outcomes, "final": True,
        "report": report,
    }  # fmt: skip


def test_a_rank_that_is_killed_has_reported_its_group(script: Script) -> None:
    script(
        "import os, signal, torch_switchml as m\n"
        "dist.init_process_group('gloo'); m.calls = 3; dist.destroy_process_group()\n"
        "m.calls = 4; os.kill(os.getpid(), signal.SIGKILL)"
    )
    (message,) = script.read_reports()
    assert (message["final"], message["report"]["calls"]) == (False, 3)


def test_forks_tell_of_their_own_group_only(script: Script) -> None:
    script(
        "import os\n"
        "dist.init_process_group('gloo')\n"
        "if os.fork() == 0: os._exit(0)\n"
        "os.wait()\n"
        "if os.fork() == 0:\n"
        "    os.environ['RANK'] = '0'\n"
        "    dist.init_process_group('gloo')\n"
        "    os._exit(0)\n"
        "os.wait()"
    )
    assert [(message["rank"], message["final"]) for message in script.read_reports()] == [
        (0, True),
        (1, True),
    ]


def test_processes_leave_marks_that_say_how_they_ended(script: Script) -> None:
    script(
        "import os, subprocess, sys\n"
        "if os.fork() == 0: os._exit(0)\n"
        "os.wait()\n"
        'code = \'import os; os.execv("/bin/true", ["true"])\'\n'
        "subprocess.run([sys.executable, '-c', code])"
    )
    marks = [(mark["ended"], mark["started"]) for mark in script.read_reports(marks=True)]
    assert sorted(marks) == [(False, False), (True, False), (True, True)]
    assert {mark["hook"] for mark in script.read_reports(marks=True)} == {"1"}


def test_every_rank_has_its_variables(script: Script) -> None:
    script.by_rank = {"SWITCHML_CONFIG": ["/a.cfg", "/b.cfg"], "OWN": ["x", "y", "z"]}
    code = "import os; print(dist.distributed_c10d.made[-1][1], os.environ.get('OWN'))"
    assert script(f"dist.init_process_group('gloo')\n{code}") == "/b.cfg y\n"
    assert script(f"dist.init_process_group('gloo', rank=0)\n{code}") == "/a.cfg x\n"
    assert script(f"dist.init_process_group('gloo', rank=2)\n{code}") == "/b.cfg z\n"


def test_the_configuration_of_a_rank_before_there_is_a_group(script: Script) -> None:
    """Where a launcher says which rank it is; what the script names itself stays."""
    script.by_rank = {"SWITCHML_CONFIG": ["/a.cfg", "/b.cfg"]}
    code = "import os; print(os.environ.get('SWITCHML_CONFIG'))"
    assert script(code) == "/b.cfg\n"
    assert script(code, RANK="") == "None\n"
    own = "import os; os.environ['SWITCHML_CONFIG'] = 'mine'; dist.init_process_group('gloo')"
    assert script(own + "; print(dist.distributed_c10d.made[-1][1])") == "mine\n"


def test_another_torch_is_left_alone(script: Script) -> None:
    other = script.root / "other"
    shutil.copytree(script.root / "site-packages" / "torch", other / "torch")
    out = script(
        "dist.init_process_group('gloo'); print(dist.distributed_c10d.made[0][0])",
        PYTHONPATH=f"{script.root / 'site'}:{other}",
    )
    assert out == "gloo\n"
    assert script.read_reports() == [{"root": os.path.realpath(other / "torch")}]


def test_after_the_run_it_does_nothing(script: Script) -> None:
    out = script(
        "dist.init_process_group('gloo'); print(dist.distributed_c10d.made)",
        SWITCHML_RUN=str(script.root / "gone.json"),
    )
    assert out == "[('gloo', None)]\n"
