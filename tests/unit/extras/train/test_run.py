"""What is run, the configurations of the ranks, their lines, and what is told of them."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.demo_outcomes import NO_FALLBACKS, TORCH

from patchgen.core.library import config
from patchgen.errors import OptionsError
from patchgen.extras.lab.simulator import compose_simulated
from patchgen.extras.train import command
from patchgen.extras.train import result_text as telling
from patchgen.extras.train.job import Job
from patchgen.extras.train.results import RankReport, Result
from patchgen.extras.train.setup import Setup, describe_switch
from patchgen.extras.train.start import choose_configs

SIMULATED = {"simulator": True, "flags": ""}
GROUP = (
    "process group of 2 ranks: allreduce(SUM, AVG) of float32, int32, bfloat16, float16 goes to "
    "SwitchML (a=1)"
)


def test_a_command_that_names_its_interpreter(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    python = sys.executable
    given = ["-u", "-W", "error", "train.py", "--x", "a b"]
    resolved = command.resolve_command([python, *given], None, str(tmp_path), os.environ)
    assert resolved == ([python, *given], python)
    assert command.resolve_command([python, *given], python, str(tmp_path), os.environ)[1] == python
    with pytest.raises(OptionsError, match="drop one of them"):
        command.resolve_command([python, *given], "/bin/sh", str(tmp_path), os.environ)


def test_a_command_without_an_interpreter(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    given = ["train.py", "-m", "x"]
    resolved = command.resolve_command(given, sys.executable, str(tmp_path), os.environ)
    assert resolved == ([sys.executable, *given], sys.executable)
    resolved = command.resolve_command(
        ["sh", "-c", "true"], sys.executable, str(tmp_path), os.environ
    )
    assert resolved[0][0].endswith("/sh")
    assert resolved[1] == sys.executable


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["{python}", "none.py"], "none.py: no such file in"),
        (["none.py"], "none.py: no such file in"),
        (["no-such-program"], "no-such-program: no such program"),
        (["/nowhere/python3", "x.py"], "/nowhere/python3: no such interpreter"),
        (["{python}", "n\x1b[1m.py"], r"n\x1b[1m.py: no such file"),
    ],
)
def test_a_command_that_cannot_be_run(given: list[str], message: str, tmp_path: Path) -> None:
    given = [text.format(python=sys.executable) for text in given]
    with pytest.raises(OptionsError) as error:
        command.resolve_command(given, None, str(tmp_path), {"PATH": os.environ["PATH"]})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "script"),
    [
        (["train.py", "-m"], "train.py"),
        (["-X", "dev", "-Werror", "-u", "train.py"], "train.py"),
        (["-m", "package.module"], None),
        (["-um", "package"], None),
        (["-c", "print(1)"], None),
        (["-", "x"], None),
        ([], None),
    ],
)
def test_the_script_of_an_interpreter(arguments: list[str], script: str | None) -> None:
    assert command.find_script(arguments) == script


def job(workers: int, files: Sequence[str]) -> Job:
    return Job(("true",), "/python", "/cache", "/", {}, workers=workers, configs=files)


def test_the_configurations_of_the_ranks(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{rank}.cfg") for rank in range(2)]
    for path in files:
        with open(path, "w", encoding="ascii") as file:
            file.write("[general]\nrank = 0\n")

    def choose(workers: int, files: Sequence[str], *, simulated: bool = False) -> list[str]:
        made = Setup(TORCH, "plugin", "why", report={**SIMULATED, "simulator": simulated})
        return choose_configs(job(workers, files), made, None, str(tmp_path))

    assert choose(2, files) == files
    assert choose(1, files[:1]) == files[:1]
    assert choose(2, ()) == []
    own = str(tmp_path / "switchml.cfg")
    assert choose(2, files[:1]) == [own]
    assert "general.rank" not in config.parse(config.load(own))
    assert choose(2, (), simulated=True) == [own]
    assert "general.num_workers" not in config.parse(config.load(own))


def test_configurations_that_do_not_fit(tmp_path: Path) -> None:
    there = tmp_path / "a.cfg"
    there.touch()
    job(3, [str(there)])
    job(3, [str(there)] * 3)
    job(0, [str(there)] * 3)
    with pytest.raises(OptionsError, match="2 configurations for 3 ranks"):
        job(3, [str(there)] * 2)
    with pytest.raises(OptionsError, match=r"none\.cfg: No such file"):
        describe_switch(job(1, [str(tmp_path / "none.cfg")]))


def rank(
    number: int, *, group: str = GROUP, reason: str = "", final: bool = True, **report: Any
) -> RankReport:
    fallbacks = {**NO_FALLBACKS, **report.pop("fallbacks", {})}
    counted = {"calls": 0, "bytes": 0, "failure": "", "fallbacks": fallbacks, **report}
    return RankReport(number, 2, "gloo", group, counted, final, reason)


def result(*ranks: RankReport, variant: str = "plugin", **others: Any) -> Result:
    return Result(Setup(TORCH, variant, "why"), 0, others.pop("failed", {}), ranks, **others)


def test_what_is_reported_of_ranks_that_delegated() -> None:
    one = rank(0, calls=1200, bytes=4800)
    other = rank(1, calls=7, bytes=28, fallbacks={"dtype": 3}, final=False)
    lines = [*telling.lines(result(one, other, failed={1: -9, 0: 3}))]
    assert lines == [
        "rank 1 was ended by SIGKILL",
        "rank 0 failed with exit code 3",
        "torch 2.9.0: why",
        "rank  allreduces delegated  bytes  Gloo: dtype",
        "----------------------------------------------",
        "0                    1,200  4,800            0",
        "1*                       7     28            3",
        "* ended by a signal: its counters are from when it last made or destroyed a group",
    ]


def test_ranks_that_went_on_over_gloo() -> None:
    over = {"failovers": 2, "returns": 1, "reason": "rank 1: why", "redone": 2, "calls": 64}
    over["seconds"] = 12.34
    one = rank(0, calls=9, bytes=36, failover=over)
    other = rank(1, calls=9, bytes=36)  # of an older torch
    headings, _, *rows, warning = [*telling.lines(result(one, other))][1:]
    wanted = "rank  allreduces delegated  bytes  failovers  after a failure  jobs redone  seconds"
    assert headings == wanted + "  returns"
    assert [row.split() for row in rows] == [
        ["0", "9", "36", "2", "64", "2", "12.3", "1"],
        ["1", "9", "36", "0", "0", "0", "0.0", "0"],
    ]
    why = "SwitchML failed, and the ranks went on over Gloo: rank 1: why"
    assert warning == f"warning: {why}"


def test_packets_that_the_client_library_counted() -> None:
    """A library of another version may not tell; what is 0 on all ranks has no column."""
    packets = {"sent": 1500, "answers": 12, "wrong": 0, "timeouts": 0}
    ranks = rank(0, packets=packets), rank(1, packets=None), rank(2)
    table = [*telling.lines(result(*ranks))][1:]
    assert table[0].split("  ")[-2:] == ["packets sent", "answered"]
    assert [line.split()[3:] for line in table[2:5]] == [["1,500", "12"], ["0", "0"], ["0", "0"]]


def test_a_rank_that_is_alone_delegates_nothing() -> None:
    ended = result(dataclasses.replace(rank(0, calls=9, bytes=36), world=1))
    assert not ended.delegated
    assert telling.data(ended)["delegated"] is False
    assert [*telling.lines(ended)][3] == "0                        0      0"


@pytest.mark.parametrize(
    ("setup", "line"),
    [
        ({"report": SIMULATED}, "torch 2.9.0: why; the switch is simulated"),
        ({"switch": "/switch"}, "torch 2.9.0: why; the switch is in software"),
        ({"notes": ["a note"]}, "torch 2.9.0: why"),
    ],
)
def test_the_switch_and_no_note_again(setup: dict[str, Any], line: str) -> None:
    ended = Result(Setup(TORCH, "plugin", "why", **setup), 0, {}, [rank(0, calls=1)])
    lines = [*telling.lines(ended)]
    assert lines[0] == line
    assert "a note" not in lines
    assert telling.data(ended)["notes"] == setup.get("notes", [])


OWN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1"}


@pytest.mark.parametrize(
    ("environ", "workers", "message"),
    [
        ({}, 1, ""),
        ({"PMI_SIZE": "1", "SLURM_NTASKS": "8"}, 1, ""),
        (OWN, 1, "RANK, WORLD_SIZE, MASTER_ADDR of another launcher: overridden .*1 rank, which"),
        ({"RANK": "0"}, 3, "RANK of another launcher: overridden .* 3 ranks of its own"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, 1, "mpirun has started 2 of this command; .*1 rank"),
        ({"SLURM_STEP_NUM_TASKS": "4"}, 2, "srun has started 4 of this command; .*2 ranks"),
        ({**OWN, "PMI_SIZE": "2"}, 1, "mpirun has started 2 .*overridden .*1 rank"),
    ],
)
def test_another_launcher_is_reported(environ: dict[str, str], workers: int, message: str) -> None:
    lines = [*command.warn_of_launcher(environ, workers)]
    assert len(lines) == (2 if message else 0)
    if message:
        assert re.match(f"warning: .*{message}", lines[0])
        assert lines[1].endswith("docs/cluster.md")


def test_adder_of_a_simulated_switch_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.cfg"
    path.write_text(compose_simulated(aggregator="10.0.0.9:50099"))
    aggregator = "the switch is simulated: an aggregator of its own adds, at 10.0.0.9:50099"
    assert describe_switch(job(0, [str(path)])) == aggregator
    assert describe_switch(job(2, [str(path)] * 2)) == aggregator
    path.write_text(compose_simulated(controller_port=1234))
    line = describe_switch(job(2, [str(path)]))
    assert line == "the switch is simulated: rank 0's process adds, at 127.0.0.1:1234"
    line = describe_switch(job(2, ()))
    assert line == "the switch is simulated: rank 0's process adds, over TCP on this machine"
    assert describe_switch(job(0, ())) == f"{line}, unless the command has its own switchml.cfg"
    path.write_text("no line of a configuration")
    assert describe_switch(job(2, [str(path)])) == "the switch is simulated"


@pytest.mark.parametrize("code", [-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGKILL, 1])
@pytest.mark.parametrize("python", ["3.8.20", "3.9.2"])
@pytest.mark.parametrize("release", ["1.7.1", "1.13.1"])
def test_why_a_rank_crashed_at_its_end(code: int, python: str, release: str) -> None:
    torch = dataclasses.replace(TORCH, version=release, python_version=python)
    lines = [*telling.lines(Result(Setup(torch, "graft", "why"), 1, {1: code}, [rank(0)]))]
    message = lines[1].startswith(f"the cause: under Python {python} PyTorch ")
    known = (release, python) == ("1.7.1", "3.9.2")
    assert message == (known and code in (-signal.SIGSEGV, -signal.SIGABRT))


@pytest.mark.parametrize(
    ("ranks", "others", "reason"),
    [
        ([], {}, "no process group was made by torch.distributed.init_process_group"),
        ([], {"elsewhere": ["/b/torch"]}, "another torch was imported, of /b/torch, not /site"),
        ([rank(0, group="")], {}, "the process group's backend is gloo"),
        ([rank(0)], {}, "no allreduce was called"),
        ([], {"makers": ["torchft.process_group"]}, "torchft.process_group made process groups"),
        ([rank(0)], {"makers": ["a", "b"]}, "a and b made process groups; SwitchML is in those"),
        ([rank(0, fallbacks={"op": 2})], {"makers": ["a"]}, "left to Gloo: 2 by operation"),
        ([rank(0, fallbacks={"op": 2, "numel": 1})], {}, "left to Gloo: 2 by operation, 1 by size"),
        ([rank(0, failure="lost")], {}, "SwitchML was given up: lost"),
        ([rank(0, group="the line", reason="why")], {}, "the line"),
        ([rank(0, calls=1)], {}, ""),
        (
            [dataclasses.replace(rank(0, calls=9), world=1)],
            {},
            "1 rank, so there is nothing to sum",
        ),
        ([], {"variant": "stock"}, ""),
        ([], {"unhooked": ["rank 0"], "elsewhere": ["/b/torch"]}, "another torch was imported"),
    ],
)
def test_why_nothing_was_delegated(
    ranks: list[RankReport], others: dict[str, Any], reason: str
) -> None:
    ended = result(*ranks, **others)
    assert telling.data(ended)["reason"] == telling.reason(ended)
    if reason:
        assert reason in telling.reason(ended)
        assert [*telling.lines(ended)][-1].startswith(f"warning: {telling.NOTHING}: ")
    else:
        assert telling.reason(ended) == ""
        assert not any("warning" in message for message in telling.lines(ended))
