"""No thread opens, resolves, prints, waits or allocates much with a lock of the delegate."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import messages
from support.delegate import CPP, GROUP_MS, compile_alone, run
from support.locks import RULE, checked, parts_checked

SHORT = {"SWITCHML_TIMEOUT_MS": "1000", "SWITCHML_CHUNK_NUMEL": "1000"}
FAILOVER = {**SHORT, "SWITCHML_FAILOVER": "1"}
SCENARIOS = {
    "concurrent": {},
    "race": {},
    "crossed": {},
    "restarted": {},
    "readers": {},
    "abandoned": {},
    "departed": {},
    "outweighed": {},
    "assisted": {},
    "forked": {},
    "aborted": SHORT,
    "late": SHORT,
    "unread": SHORT,
    "untaken": SHORT,
    "renewed": SHORT,
    "outlived": FAILOVER,
    "returned": FAILOVER,
    "ended": {"SWITCHML_FAILOVER": "1"},
    "dropped": {"SWITCHML_FAILOVER": "1"},
}
"""Scenarios of the delegate's own tests, and their environment."""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checked(tmp_path_factory)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_lock_is_held(program: Path, scenario: str, tmp_path: Path) -> None:
    run(program, scenario, 2, tmp_path, env={-1: SCENARIOS[scenario]})


def test_no_lock_is_held_while_metrics_are_written(program: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    env = {-1: {"SWITCHML_METRICS": str(pages), "SWITCHML_METRICS_SECONDS": "1"}}
    run(program, "measured", 2, tmp_path, env=env)


def test_no_lock_is_held_where_the_library_cannot_be_opened(program: Path, tmp_path: Path) -> None:
    env = {0: {"NO_LIBRARY": "libgone.so.1"}}
    output = run(program, "refused", 2, tmp_path, env=env)
    assert f"{messages.STAYS}: rank 0: libgone.so.1" in output[0]


def test_a_name_is_resolved_in_time(program: Path, tmp_path: Path) -> None:
    """A server of names that does not answer leads to Gloo, without a lock as well."""
    values = {"backend": "dpdk", "controller_ip": "switch.example"}

    def prepared(directory: Path) -> None:
        with (directory / "switchml.cfg").open("a") as file:
            file.write("[backend.dpdk]\nworker_ip = auto\n")

    env = {1: {"MUTE_MS": str(GROUP_MS)}}
    output = run(
        program, "refused", 2, tmp_path,
        env=env, config=values, prepared=prepared, timeout_ms=8_000,
    )  # fmt: skip
    assert messages.STAYS in output[0]
    assert messages.NO_ADDRESS.format("switch.example", 2000) in output[0]


@pytest.mark.parametrize(
    ("name", "scenarios"),
    [("failover", ("window", "moments 10", "gone")), ("heartbeat", ("back",))],
)
def test_no_lock_of_a_part_is_held(
    name: str, scenarios: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Also without a library, where each message can be late."""
    parts = parts_checked(tmp_path_factory)
    locks = (*RULE, CPP / "locks.cpp", f"-I{parts}", parts / "parts.o")
    program = compile_alone(name, tmp_path, *locks)
    for scenario in scenarios:
        done = subprocess.run(
            [program, *scenario.split()], capture_output=True, text=True, timeout=240, check=False
        )
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
