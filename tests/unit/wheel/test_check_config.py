from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from patchgen.client.library import Archive
from patchgen.wheel.check import runtime
from patchgen.wheel.check.site import Site

if TYPE_CHECKING:
    from pathlib import Path

REAL = Archive(("DPDK", "DUMMY"), timeouts=True, cxx11_abi=True)
RDMA = Archive(("RDMA",), timeouts=True, cxx11_abi=True)
SIMULATOR = Archive((), timeouts=True, cxx11_abi=True, simulator=True)
DUMMY = "backend = dummy: nothing is summed, because it talks to nobody; "
DUMMY += "take dpdk or rdma, or the simulator"
ALONE = "num_workers = 1: each rank is alone and keeps its own values; set it to N"


def at(cwd: Path, **environ: str) -> Site:
    return Site("/w", None, None, environ, str(cwd))


def test_the_first_place_counts(tmp_path: Path) -> None:
    etc, cwd = tmp_path / "etc", tmp_path / "cwd"
    for directory in (etc, cwd):
        directory.mkdir()
    given = tmp_path / "own.cfg"
    places = [cwd / "switchml-node1.cfg", cwd / "switchml.cfg", etc / "switchml.cfg", given]
    none = runtime.check_config(at(cwd), None, "node1", str(etc))[0]
    listed = ", ".join(map(str, places[2::-1]))
    assert none.problems == (f"none of {listed}; write one, or allreduce stays with Gloo",)
    for rank, path in enumerate(places):
        path.write_text(f"[general]\nrank = {rank}\nnum_workers = 9\nbackend = dpdk\n")
        environ = {"SWITCHML_CONFIG": "../own.cfg"} if path == given else {}
        row, found = runtime.check_config(at(cwd, **environ), REAL, "node1", str(etc))
        assert row.found == f"{path}: rank {rank} of 9, backend dpdk"
        assert row.ok
        assert found is not None
        assert found.rank == rank


@pytest.mark.parametrize("name", ["", "switchml.cfg"])
def test_a_file_that_others_could_have_written(tmp_path: Path, name: str) -> None:
    """The delegate's rule: a file that the user or the administrator has named is taken."""
    etc, cwd = tmp_path / "etc", tmp_path / "cwd"
    for directory in (etc, cwd):
        directory.mkdir()
        (directory / "switchml.cfg").write_text("[general]\nnum_workers = 2\nbackend = dpdk\n")
        (directory / name).chmod(0o777)
    named = {"SWITCHML_CONFIG": "switchml.cfg"}
    assert runtime.check_config(at(cwd, **named), REAL, "node1", str(etc))[0].ok
    assert runtime.check_config(at(cwd), REAL, "node1", str(etc))[0].ok
    (etc / "switchml.cfg").unlink()
    row, found = runtime.check_config(at(cwd), REAL, "node1", str(etc))
    one = cwd / name
    (problem,) = row.problems
    assert problem == (
        f"{cwd}/switchml.cfg: {one} can be written by others; run `chmod go-w {one}`, or name the "
        "file in SWITCHML_CONFIG; no rank takes it"
    )
    assert found is None
    (cwd / name).chmod(0o755)
    assert runtime.check_config(at(cwd), REAL, "node1", str(etc))[0].ok


@pytest.mark.parametrize(
    ("lines", "archive", "problems"),
    [
        ("num_workers = 2\nbackend = dpdk", REAL, []),
        ("num_workers = 2", SIMULATOR, []),
        ("num_workers = 2\nbackend = rdma\n[backend.rdma]\nmsg_numel = 1024", None, []),
        ("", REAL, [DUMMY]),
        ("", SIMULATOR, []),
        ("rank = auto\nnum_workers = ${SLURM_NTASKS}\nbackend = dpdk", REAL, []),
        ("rank = 7\nbackend = dpdk", REAL, []),
        ("num_workers = 2", REAL, [DUMMY]),
        ("num_workers = 1", SIMULATOR, [ALONE]),
        ("num_workers = 2\nbackend = rdma\ntimeout = 1e3", RDMA, []),
        ("num_workers = 2\nbackend = rdma\ntimeout = soon", RDMA, []),  # for the library to refuse
        ("num_workers = 2\nbackend = rdma\ntimeout = 10", replace(RDMA, timeouts=False), []),
        *(
            (
                f"num_workers = 2\nbackend = rdma\n{line}",
                RDMA,
                [f"timeout = {shown}: too short for RDMA; set it to 1000 or more"],
            )
            for line, shown in (("timeout = 999.9", "999.9"), ("", "10"))
        ),
        (
            "rank = 2\nnum_workers = 2\nbackend = dpdk",
            REAL,
            ["rank = 2: ranks are 0 to 1; leave it out, and it is filled in"],
        ),
        (
            "num_workers = 2\nbackend = rdma\n[backend.rdma]\nmsg_numel = 1024",
            REAL,
            [
                "backend = rdma: the client library has dpdk, dummy; take one of them",
                "[backend.rdma]: unknown to the client library; remove it",
            ],
        ),
        (
            (
                "num_workers = 2\nbackend = dpdk\nprepostprocessor = bypass\n"
                "instant_job_completion = true"
            ),
            REAL,
            [
                (
                    "prepostprocessor = bypass: nothing is summed, because it does not convert for "
                    "the switch; take cpu_exponent_quantizer"
                ),
                (
                    "instant_job_completion = true: nothing is summed, because it computes "
                    "nothing; set it to false"
                ),
            ],
        ),
    ],
)
def test_what_is_told(
    tmp_path: Path, lines: str, archive: Archive | None, problems: list[str]
) -> None:
    (tmp_path / "switchml.cfg").write_text(f"[general]\n{lines}\n")
    row, _ = runtime.check_config(at(tmp_path), archive, "node1", "/nowhere")
    assert row.problems == tuple(problems)
    assert not row.required


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[general]\nrank = x\n", "rank = x is not a number from 0 to 65535; mend it"),
        (b"[general]\nnum_workers = 65536\n", "num_workers = 65536 is not a number"),
        (b"\xff\xfe\0\n", "line 1 is no 'key = value'; mend it"),
        (None, "Is a directory; it has to be a file that can be read"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "switchml.cfg"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    row, _ = runtime.check_config(at(tmp_path), REAL, "node1", "/nowhere")
    assert row.problems[0].startswith(f"{path}: {problem}")
