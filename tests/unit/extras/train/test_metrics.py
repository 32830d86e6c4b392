"""Metrics of ranks, from the files that these have written."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from support.metrics import page

from patchgen.extras.train import metrics


def test_metrics_are_read_from_a_page() -> None:
    read = metrics.parse(1, page(3, state="failover", seconds=0.012, timeouts=1))
    assert read.cells == ("1", "failover", "3", "1,200", "7", "4.00", "0.5", "30", "1", "1", "1")
    assert len(read.cells) == len(metrics.HEADINGS)
    assert read.line == (
        "metrics: rank 1: failover, 3 allreduces, 1,200 bytes, 7 by Gloo, 4.00 ms each, "
        "waited 0.5 s, 1 timeout, 1 failover, 1 return"
    )


def test_packets_that_the_library_does_not_count_are_unknown() -> None:
    read = metrics.parse(0, page(0))
    assert read.cells[-4:] == ("-", "-", "0", "0")
    assert read.line.endswith("0.00 ms each, waited 0.5 s")


def write(directory: Path, name: str, text: str, age: float = 0) -> None:
    path = directory / name.format(host=socket.gethostname())
    path.write_text(text)
    now = path.stat().st_mtime - age
    os.utime(path, (now, now))


def test_files_of_this_machine_that_are_new(tmp_path: Path) -> None:
    write(tmp_path, "switchml-{host}-0-11.prom", page(1))
    pages = metrics.Pages(str(tmp_path))
    assert pages.read() == []
    write(tmp_path, "switchml-{host}-10-12.prom", page(10))
    write(tmp_path, "switchml-{host}-2-13.prom", page(2))
    write(tmp_path, "switchml-{host}-2-14.prom", page(3), age=5)
    write(tmp_path, "switchml-{host}-3-15.prom.new", page(4))
    write(tmp_path, "switchml-another-{host}-4-16.prom", page(5))
    write(tmp_path, "{host}-5-17.prom", page(6))
    (tmp_path / f"switchml-{socket.gethostname()}-6-18.prom").symlink_to("gone")
    found = [(read.rank, read.values["allreduces_total"]) for read in pages.read()]
    assert found == [(2, 2), (10, 10)]
