"""Memory and threads that are missing in the delegate, at each place that wants some."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.configs import with_values
from support.delegate import FAULTS, compiled, environment, plain_parts, unite
from support.shared import once
from support.simulator import installed_prefix

from patchgen.system.ports import free_port

SCENARIOS = (
    "abandon", "abandon-failover", "abort", "abort-failover", "drop", "drop-failover",
    "exit", "exit-failover", "fork", "join", "leave", "open", "report", "sum", "suspend",
)  # fmt: skip


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(directory: Path) -> None:
        prefix = installed_prefix(tmp_path_factory)
        shutil.copytree(plain_parts(tmp_path_factory), directory, dirs_exist_ok=True)
        shutil.copy(prefix / "switchml.cfg", directory)
        sources = [unite(directory, "linked", "scarcity"), directory / "parts.o"]
        compiled("scarcity", sources, prefix, directory, "clang++", "-O0", *FAULTS, "-ldl")

    return once(tmp_path_factory, "delegate-memory", make) / "scarcity"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_ends_the_process(program: Path, scenario: str, tmp_path: Path) -> None:
    """The group is broken or left, whatever lacks memory, and nobody waits for ever."""
    template = (program.parent / "switchml.cfg").read_text()
    values = {"rank": 0, "num_workers": 1, "controller_port": free_port()}
    (tmp_path / "switchml.cfg").write_text(with_values(template, values))
    done = subprocess.run(
        [program, scenario],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment({}), timeout=240,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
