"""The log of a build: all attempts, by line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from patchgen.errors import ToolError
from patchgen.wheel import setup_py

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[[str], str]:
    """Runs a setup.py of a text; what the log holds after it."""
    source, logs = tmp_path / "source", tmp_path / "logs"
    source.mkdir()
    logs.mkdir()
    session: Any = SimpleNamespace(
        request=SimpleNamespace(source=str(source), logs=str(logs), workers=1, version="1"),
        source=SimpleNamespace(epoch=0),
        env=SimpleNamespace(python="/usr/bin/python3", environ={}),
        guard=None,
    )

    def run(program: str) -> str:
        (source / "setup.py").write_text(program)
        setup_py.run_setup(session, ["build"])
        return (logs / "build.log").read_text()

    return run


FAILS = "print('first\\x0cof a page\\x0c\\rline\\nerror: no such thing'); raise SystemExit(1)"


def test_the_line_of_an_error_is_that_of_the_log(
    attempt: Callable[[str], str], tmp_path: Path
) -> None:
    attempt("print('well')")
    with pytest.raises(ToolError) as caught:
        attempt(FAILS)
    log = tmp_path / "logs" / "build.log"
    lines = log.read_bytes().decode().split("\n")
    assert f"(line {lines.index('error: no such thing') + 1} of {log})" in str(caught.value)


def test_all_attempts_are_kept_each_on_lines_of_its_own(
    attempt: Callable[[str], str], tmp_path: Path
) -> None:
    attempt("print('first')")
    log = tmp_path / "logs" / "build.log"
    log.write_text(log.read_text() + "a line that a kill cut sh")
    said = attempt("print('second')").splitlines()
    assert [line for line in said if not line.startswith("==> compile, ")] == [
        "first", "a line that a kill cut sh", "second"
    ]  # fmt: skip
    assert len([line for line in said if line.startswith("==> compile, ")]) == 2


def test_a_line_is_in_the_log_before_the_next_is_read(
    attempt: Callable[[str], str], tmp_path: Path
) -> None:
    log = tmp_path / "logs" / "build.log"
    program = (
        "import time\n"
        "print('written', flush=True)\n"
        f"while 'written\\n' not in open({str(log)!r}).read(): time.sleep(0.01)\n"
    )
    assert attempt(program).endswith("written\n")
