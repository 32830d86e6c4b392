"""What runs in the ranks: the bootstrap beside a stand-in for torch, and the launcher of ranks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from support import programs
from support.waiting import ENOUGH, has_ended, until

from patchgen.core.verify.payload import launcher, rank_hook, sitecustomize

if TYPE_CHECKING:
    from pathlib import Path

REPORT = """
calls = 0
def report():
    return {"calls": calls, "group": "agreed", "reason": "why"}
"""
CUDA = "class cuda:\n    @staticmethod\n    def is_available(): return True\n"


@dataclass
class Script:
    """A script in an interpreter with the bootstrap and the stand-in."""

    root: Path
    way: str = "plugin"
    template: str | None = None
    files: list[str] = field(default_factory=list)
    cpus: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        distributed = self.root / "site-packages" / "torch" / "distributed"
        distributed.mkdir(parents=True)
        (distributed.parent / "__init__.py").write_text(CUDA)
        (distributed / "__init__.py").write_text("from .distributed_c10d import *\n")
        (distributed / "distributed_c10d.py").write_text(programs.read("bootstrapped_c10d"))
        (distributed / "switchml.py").write_text(REPORT)
        (self.root / "site-packages" / "torch_switchml.py").write_text(REPORT)
        (self.root / "site").mkdir()
        (self.root / "ranks").mkdir()
        shutil.copy(sitecustomize.__file__, self.root / "site" / "sitecustomize.py")
        shutil.copy(rank_hook.__file__, self.root / "site" / "switchml_run.py")

    def __call__(self, code: str, *arguments: str, **environ: str) -> str:
        job = {
            "way": self.way,
            "root": os.path.realpath(self.root / "site-packages" / "torch"),
            "directory": str(self.root),
            "files": self.files,
            "template": self.template,
            "cpus": self.cpus,
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
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env=environ, capture_output=True, text=True, check=False, cwd=self.root, timeout=ENOUGH,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout

    def told(self) -> list[dict[str, Any]]:
        paths = sorted((self.root / "ranks").iterdir())
        assert all(path.suffix == ".json" for path in paths)
        return [json.loads(path.read_text()) for path in paths]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    for name in ("SWITCHML_CONFIG", "PYTHONPATH", "PYTHONSTARTUP"):
        monkeypatch.delenv(name, raising=False)
    return Script(tmp_path / "a run")


@pytest.mark.parametrize(
    ("asked", "backend"),
    [
        ("gloo", "switchml"),
        ("GLOO", "switchml"),
        ("cpu:gloo,cuda:nccl", "cpu:switchml,cuda:nccl"),
        ("cpu:gloo, cuda:gloo", "cpu:switchml,cuda:switchml"),
        ("nccl", "nccl"),
        ("switchml", "switchml"),
        ("gloom", "gloom"),
    ],
)
def test_the_plugin_takes_the_place_of_gloo(asked: str, backend: str) -> None:
    assert rank_hook.translated(asked) == backend


@pytest.mark.parametrize(
    ("arguments", "environ", "place"),
    [
        ({}, {}, (-1, -1)),
        ({}, {"RANK": "1", "WORLD_SIZE": "3"}, (1, 3)),
        ({"rank": 0, "world_size": 2}, {"RANK": "1", "WORLD_SIZE": "3"}, (0, 2)),
        ({"rank": -1}, {"RANK": "1"}, (1, -1)),
        ({"init_method": "tcp://h:1?rank=4&world_size=5"}, {"RANK": "1"}, (4, 5)),
        ({"init_method": "file:///x", "rank": 2}, {"WORLD_SIZE": "x"}, (2, -1)),
    ],
)
def test_the_rank_before_there_is_a_group(
    arguments: dict[str, Any], environ: dict[str, str], place: tuple[int, int]
) -> None:
    assert rank_hook.place(arguments, environ) == place


@pytest.mark.parametrize("call", ["'gloo'", "backend='Gloo'", ""])
def test_a_script_gets_the_plugin_and_sees_gloo(script: Script, call: str) -> None:
    out = script(
        f"dist.init_process_group({call}); dist.new_group([0], None, 'gloo')\n"
        "dist.new_group([1], backend='gloo'); dist.new_group([1])\n"
        "print(dist.distributed_c10d.made, dist.get_backend())"
    )
    made = "[('switchml', None), ('switchml', [0]), ('switchml', [1]), (None, [1])]"
    assert out == f"{made} gloo\n"


def test_a_script_that_names_no_backend_and_has_a_gpu(script: Script) -> None:
    out = script("dist.init_process_group(); print(dist.distributed_c10d.made[0][0])", NCCL="1")
    assert out == "cpu:switchml,cuda:nccl\n"
    (told,) = script.told()
    assert told["backend"] == "cpu:gloo,cuda:nccl"


def test_other_backends_and_other_ways_stay_as_they_are(script: Script) -> None:
    code = "dist.init_process_group({}); print(dist.get_backend(), 'torch_switchml' in sys.modules)"
    assert script("import sys;" + code.format("'nccl'")) == "nccl False\n"
    script.way = "graft"
    assert script("import sys;" + code.format("'gloo'")) == "gloo False\n"


def test_a_wrong_call_raises_what_it_always_did(script: Script) -> None:
    out = script(
        "for function in (dist.init_process_group, dist.new_group):\n"
        "    try: function(none=1)\n"
        "    except TypeError as error: print(error)"
    )
    assert out.count("got an unexpected keyword argument 'none'") == 2
    assert script.told() == []


def test_a_torch_of_an_older_patch_reports_no_reason(script: Script) -> None:
    older = REPORT.replace(', "reason": "why"', "")
    (script.root / "site-packages" / "torch_switchml.py").write_text(older)
    script("dist.init_process_group('gloo')")
    (told,) = script.told()
    assert told["outcomes"] == [{"group": "agreed", "reason": ""}]


@pytest.mark.parametrize("end", ["", "import os; os._exit(0)", "raise SystemExit"])
@pytest.mark.parametrize("way", ["plugin", "graft", "stock"])
def test_the_last_word_of_a_rank(script: Script, way: str, end: str) -> None:
    script.way = way
    module = "torch_switchml" if way == "plugin" else "torch.distributed.switchml"
    script(f"dist.init_process_group('gloo'); import {module} as m; m.calls = 5\n{end}")
    (told,) = script.told()
    report = None if way == "stock" else {"calls": 5, "group": "agreed", "reason": "why"}
    outcomes = [] if way == "stock" else [{"group": "agreed", "reason": "why"}]
    assert told.pop("pid") > 0
    assert told == {
        "rank": 1, "world": 2, "backend": "gloo", "outcomes": outcomes, "final": True,
        "report": report,
    }  # fmt: skip


def test_a_rank_that_is_killed_has_told_of_its_group(script: Script) -> None:
    script(
        "import os, signal, torch_switchml as m\n"
        "dist.init_process_group('gloo'); m.calls = 3; dist.destroy_process_group()\n"
        "m.calls = 4; os.kill(os.getpid(), signal.SIGKILL)"
    )
    (told,) = script.told()
    assert (told["final"], told["report"]["calls"]) == (False, 3)


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
    assert [(told["rank"], told["final"]) for told in script.told()] == [(0, True), (1, True)]


def test_every_rank_has_its_configuration(script: Script) -> None:
    script.template = "rank = @RANK@\nnum_workers = @WORKERS@\n"
    code = "print(open(dist.distributed_c10d.made[-1][1]).read())"
    out = script(f"dist.init_process_group('gloo')\n{code}")
    assert out == "rank = 1\nnum_workers = 2\n\n"
    out = script(f"dist.init_process_group('gloo', rank=4, world_size=7)\n{code}")
    assert out == "rank = 4\nnum_workers = 7\n\n"
    script.template, script.files = None, ["/a.cfg", "/b.cfg"]
    code = "print(dist.distributed_c10d.made[-1][1])"
    assert script(f"dist.init_process_group('gloo')\n{code}") == "/b.cfg\n"
    assert script(f"dist.init_process_group('gloo', rank=2)\n{code}") == "None\n"


def test_ranks_take_the_processors_in_turn(script: Script) -> None:
    script.template, script.cpus = "cores = @CPUS@ of rank @RANK@\n", ["3", "5"]
    code = "print(open(dist.distributed_c10d.made[-1][1]).read(), end='')"
    told = [
        script(f"dist.init_process_group('gloo', rank={rank}, world_size=3)\n{code}")
        for rank in range(3)
    ]
    assert told == [f"cores = {cpu} of rank {rank}\n" for rank, cpu in enumerate((3, 5, 3))]


def test_a_script_that_names_its_own_configuration_keeps_it(script: Script) -> None:
    script.template = "x"
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
    assert script.told() == [{"root": os.path.realpath(other / "torch")}]


def test_the_sitecustomize_of_the_user_still_runs(script: Script) -> None:
    mine = script.root / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("print('mine', __file__.rsplit('/', 2)[1])")
    path = f"{script.root / 'site'}:{mine}:{script.root / 'site-packages'}"
    out = script("import sitecustomize; print(sitecustomize.__file__)", PYTHONPATH=path)
    assert out == f"mine mine\n{mine / 'sitecustomize.py'}\n"


def test_after_the_run_it_does_nothing(script: Script) -> None:
    out = script(
        "dist.init_process_group('gloo'); print(dist.distributed_c10d.made)",
        SWITCHML_RUN=str(script.root / "gone.json"),
    )
    assert out == "[('gloo', None)]\n"


def launch(
    directory: Path, workers: int, code: str, *, offset: int = 0, restarts: int = 0, **environ: str
) -> subprocess.Popen[bytes]:
    job = {
        "command": [sys.executable, "-c", code, "an argument", "*"],
        "workers": workers,
        "nodes": 1,
        "node": 0,
        "offset": offset,
        "world": offset + workers,
        "backend": "static",
        "restarts": restarts,
        "address": "127.0.0.1",
        "first": "127.0.0.1",
        "port": 12345,
        "directory": str(directory),
        "environ": {**os.environ, **environ},
    }
    (directory / "job.json").write_text(json.dumps(job))
    # Isolated, so that no torch of the developer is found: then the launcher starts the ranks.
    command = [sys.executable, "-S", launcher.__file__, str(directory / "job.json")]
    return subprocess.Popen(command, start_new_session=True)


def test_the_environment_and_the_arguments_of_a_rank(tmp_path: Path) -> None:
    names = "'RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT'"
    code = f"import os, sys; print(*[os.environ[n] for n in ({names}, 'OWN')], sys.argv[1:])"
    running = launch(tmp_path, 3, code, OWN="own")
    assert running.wait(ENOUGH) == 0
    for rank in range(3):
        out = (tmp_path / f"{rank}.out").read_text()
        assert out == f"{rank} {rank} 3 3 127.0.0.1 12345 own ['an argument', '*']\n"
    assert json.loads((tmp_path / "failed.json").read_text()) == {}


@pytest.mark.parametrize(
    ("end", "code", "failed"),
    [("sys.exit(7)", 7, 7), ("os.kill(os.getpid(), 9)", 137, -9), ("boo", 1, 1)],
)
def test_one_rank_fails(tmp_path: Path, end: str, code: int, failed: int) -> None:
    script = (
        "import os, sys, time\n"
        "if os.environ['RANK'] == '1':\n"
        "    while not os.path.exists('up'): time.sleep(0.01)\n"
        f"    {end}\n"
        "open('up', 'w').close(); time.sleep(600)"
    )
    script = f"import os; os.chdir({str(tmp_path)!r})\n{script}"
    running = launch(tmp_path, 2, script)
    assert running.wait(ENOUGH) == code
    assert json.loads((tmp_path / "failed.json").read_text()) == {"1": failed}
    error = (tmp_path / "1.err").read_text()
    assert ("NameError" in error) == (end == "boo")


def test_ranks_of_another_host_come_before(tmp_path: Path) -> None:
    code = "import os; print(*[os.environ[n] for n in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE')])"
    code += "; os._exit(int(os.environ['LOCAL_RANK']))"
    running = launch(tmp_path, 2, code, offset=3, PYTHONUNBUFFERED="1")
    assert running.wait(ENOUGH) == 1
    assert (tmp_path / "4.out").read_text() == "4 1 5\n"
    assert json.loads((tmp_path / "failed.json").read_text()) == {"4": 1}


def test_no_restarts_without_torchs_own_launcher(tmp_path: Path) -> None:
    assert launch(tmp_path, 2, "pass", restarts=1).wait(ENOUGH) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["job.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_ranks_end_with_the_launcher(tmp_path: Path, workers: int, number: int) -> None:
    script = (
        f"import os, time; os.chdir({str(tmp_path)!r})\n"
        "try: open(f'{os.getpid()}.pid', 'w').close(); time.sleep(600)\n"
        "except KeyboardInterrupt: open(f'{os.getpid()}.told', 'w').close()"
    )
    running = launch(tmp_path, workers, script)
    until(lambda: len([*tmp_path.glob("*.pid")]) == max(workers, 1), running)
    running.send_signal(number)
    assert running.wait(ENOUGH) == 128 + number
    assert all(has_ended(path.stem) for path in tmp_path.glob("*.pid"))
    told = max(workers, 1) if number == signal.SIGINT else 0
    assert len([*tmp_path.glob("*.told")]) == told
    assert not (tmp_path / "failed.json").exists()
