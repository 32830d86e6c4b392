"""The metrics of running ranks, on a terminal and in a log."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.metrics import page
from support.waiting import until

from patchgen.cli import watching
from patchgen.cli.watching import watched
from patchgen.errors import OptionsError
from patchgen.extras.train.job import Job
from patchgen.extras.train.start import Line


class Terminal(io.StringIO):
    """Stands in for a stream of a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(watching, "_SECONDS", 0.01)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Makes the streams those of a terminal, for the rest of a test."""
    shown = Terminal()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", shown)
    for name, value in {"TERM": "xterm", "COLUMNS": "120", "LINES": "30"}.items():
        monkeypatch.setenv(name, value)
    return shown


def job(environ: Mapping[str, str]) -> Job:
    return Job(("true",), "/python", "/cache", "/", environ, workers=2)


def write(given: Job, rank: int, text: str) -> None:
    directory = given.environ["SWITCHML_METRICS"]
    path = os.path.join(directory, f"switchml-{socket.gethostname()}-{rank}-{rank + 7}.prom")
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[Line] = []
    told = ""
    with watched(job({"A": "b"}), lines.append) as (given, output):
        directory = given.environ["SWITCHML_METRICS"]
        assert given.environ["A"] == "b"
        output(Line(1, False, b"of the rank\n"))  # noqa: FBT003  # its place has a name
        write(given, 0, page(1))

        def seen() -> bool:
            nonlocal told
            told += capsys.readouterr().err
            return "rank 0" in told

        until(seen)
        write(given, 0, page(2))
        write(given, 0, page(3, state="ended"))
    told += capsys.readouterr().err
    assert [line.text for line in lines] == [b"of the rank\n"]
    assert [line.split(",")[:2] for line in told.splitlines()] == [
        ["metrics: rank 0: delegating", " 1 allreduce"],
        ["metrics: rank 0: ended", " 3 allreduces"],
    ]
    assert not os.path.exists(directory)


def test_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with watched(job({}), lambda _: pytest.fail("not by the table")) as (given, output):
        write(given, 1, page(4711))
        until(lambda: "4,711" in stream.getvalue())
        for text in (b"10 %\r", b"\x1b[1m[all] done\x1b[0m\r\n"):
            output(Line(1, True, text))  # noqa: FBT003
        write(given, 1, page(4712, state="ended"))
    shown = stream.getvalue()
    assert "[1] " in shown
    assert "[all] done" in shown
    assert "10 %" not in shown
    last = shown[shown.rindex("mean ms") :]
    assert "ended" in last
    assert "4,712" in last


def test_no_rank_has_written_any(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with watched(job({}), lambda _: None):
        pass
    assert "metrics: no rank has written any" in stream.getvalue()


def test_directory_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own"
    own.mkdir()
    environ = {"SWITCHML_METRICS": str(own), "SWITCHML_METRICS_SECONDS": "7"}
    write(job(environ), 0, page(1))
    with watched(job(environ), lambda _: None) as (given, _):
        assert given.environ == environ
        write(given, 1, page(1))
    assert capsys.readouterr().err.count("metrics: rank 1") == 1
    assert len([*own.iterdir()]) == 2
    gone = job({"SWITCHML_METRICS": str(tmp_path / "gone")})
    with (
        pytest.raises(OptionsError, match=r"SWITCHML_METRICS: .*gone: no such directory"),
        watched(gone, lambda _: None),
    ):
        pass
