"""What a switch has counted, as tables."""

from __future__ import annotations

from typing import Any

from patchgen.extras.lab.switch import counters as shown

NAMES = ("received", "summed", "resent", "answered", "answered_again", "malformed", "elsewhere",
         "lost", "answers_lost", "complete")  # fmt: skip
PORT = {"port": "memif:/tmp/0", "received": 1234, "sent": 5, "no_room": 0, "departures": 1}


def counters(**changes: Any) -> dict[str, Any]:
    zero = dict.fromkeys(NAMES, 0)
    return {
        "seed": 7, "sessions": 1, "foreign": 0, "duplicated": 0, "overtaken": 0, "workers": [],
        "sets": [{"set": 0, **zero}, {"set": 1, **zero, "complete": 3}], "ports": [PORT], **changes,
    }  # fmt: skip


def worker(rank: int, **counted: int) -> dict[str, Any]:
    return {"rank": rank, **dict.fromkeys(NAMES, 0), **counted}


def test_ports_are_reported_also_where_nobody_came() -> None:
    assert [*shown.lines(counters())] == [
        "port          frames in  frames out  no room",
        "--------------------------------------------",
        "memif:/tmp/0      1,234           5        0",
    ]


def test_workers_and_sets_have_tables_and_faults_a_line() -> None:
    workers = [worker(1, summed=4567, lost=8)]
    lines = [*shown.lines(counters(workers=workers, duplicated=2, overtaken=1000, foreign=6))]
    assert lines[0].split("  ")[0] == "rank"
    assert lines[2].split() == ["1", "0", "4,567", "0", "0", "0", "0", "8", "0"]
    assert lines[7].split() == ["1", "0", "0", "0", "3", "0"]
    assert lines[-2:] == [
        "frames of workers that have not joined: 6",
        "delivered twice: 2, after later ones: 1,000 (seed 7)",
    ]


def test_columns_of_the_ranks() -> None:
    came = [worker(1, received=1200, summed=1100, resent=100, answered_again=7), worker(0)]
    headings, rows = shown.columns({"workers": came})
    assert headings == ["packets", "summed", "sent again", "answered again"]
    assert rows == {0: ["0", "0", "0", "0"], 1: ["1,200", "1,100", "100", "7"]}
    headings, rows = shown.columns({"workers": [worker(0, lost=3), worker(1, malformed=1)]})
    assert headings[4:] == ["lost", "malformed"]
    assert rows[0][4:] == ["3", "0"]
