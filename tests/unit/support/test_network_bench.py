"""What `make bench-network` predicts, tells and draws."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import bench_network
import pytest
from network import figure, measuring, report

NUMEL = 2**22
WORDS = {(2, "8"): 3, (2, "4"): 6, (4, "8"): 3, (4, "4"): 5, (8, "8"): 2, (8, "4"): 4}


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_ring_sends_more_the_more_ranks_there_are_and_a_switch_does_not(ranks: int) -> None:
    assert measuring.sent("gloo", ranks, NUMEL) == 2 * (ranks - 1) / ranks * 2**24
    assert measuring.sent("float32", ranks, NUMEL) == 2**24


@pytest.mark.parametrize(("case", "lanes"), WORDS.items())
def test_fewer_bits_are_packed_words_and_scales(case: tuple[int, str], lanes: int) -> None:
    ranks, way = case
    scales = 2 * (ranks - 1) / ranks * 4 * NUMEL / 512
    words = measuring.sent(way, ranks, NUMEL) - scales
    assert words == pytest.approx(4 * NUMEL / lanes, rel=1e-6)


def test_a_prediction_is_bytes_over_rate_and_latency() -> None:
    wait = {"gloo": 0.01, "switchml": 0.02}
    assert measuring.predicted("float32", 8, NUMEL, 100, wait) == pytest.approx(1.423, abs=1e-3)
    assert measuring.predicted("gloo", 8, NUMEL, 100, wait) == pytest.approx(2.466, abs=1e-3)
    fewer = 8 * measuring.sent("4", 8, NUMEL) / (1e8 * 1448 / 1514)
    assert measuring.predicted("4", 8, NUMEL, 100, wait) == pytest.approx(fewer + 0.03)


def data() -> dict[str, Any]:
    ways = {"gloo": 2.0, "float32": 1.0, "8": 0.5, "4": 0.25}
    found = {
        "seconds": {way: {"median": value, "all": [value]} for way, value in ways.items()},
        "predicted": {way: 0.9 * value for way, value in ways.items()},
        "failover": {"median": 1.025, "all": [1.025]},
        "processors": 0.5,
    }
    training = {"steps": {"gloo": 1.0, "float32": 1.75, "4": 4.0}, "weights": 1000}
    return {
        "rate": 100.0, "numel": NUMEL, "processors": 2, "load": 0.1,
        "ranks": {"2": found, "8": {**found, **training}},
    }  # fmt: skip


def test_the_tables_have_ratios() -> None:
    lines = [" ".join(line.split()) for line in report.lines(data())]
    assert "8 SwitchML float32 1.00 s 0.90 s 0.50" in lines
    assert "8 SwitchML 4 bits 0.25 s 0.23 s 0.12" in lines
    assert "SwitchML 4 bits 4.00 4.00" in lines
    assert lines.count("8 1.000 s 1.025 s 1.025") == 1
    assert "A training of 1,000 weights on 8 ranks:" in lines


def test_racks_are_a_table_of_their_own() -> None:
    seconds = {"gloo": {"median": 2.0}, "racks": {"median": 3.0}}
    lines = [" ".join(line.split()) for line in report.lines(data())]
    more = {**data(), "racks": {"4": {"seconds": seconds}}}
    told = [" ".join(line.split()) for line in report.lines(more)]
    assert [line for line in told if line not in lines][-1] == "4 3.00 s 1.50"


@pytest.mark.parametrize("racks", ["3", "0", "-1", "9"])
def test_racks_that_do_not_divide_the_hosts_are_refused(
    racks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--python=python3", "--output=nowhere", "--ranks", "2", "8", "--racks", "2", racks]
    with pytest.raises(SystemExit) as ended:
        bench_network.arguments(given)
    assert ended.value.code == 2
    line = f"--racks {racks}: 8 hosts are not as many in each rack"
    assert capsys.readouterr().err.endswith(f": error: {line}\n")
    assert bench_network.arguments([*given[:-1], "4"]).racks == [2, 4]


def test_a_page_gets_the_tables_between_its_marks() -> None:
    old = f"# A\n\n{report.BEGIN}\nold\n{report.END}\n\nmore\n"
    new = report.page(old, data())
    assert new.startswith(f"# A\n\n{report.BEGIN}\n\nAn allreduce of 16 MiB")
    assert "\n| 8 | SwitchML float32 | 1.00 s | 0.90 s | 0.50 |\n" in new
    assert "\n| 8 | 1.000 s | 1.025 s | 1.025 |\n" in new
    assert "| SwitchML 4 bits | 4.00 | 4.00 |\n\nProcessors that" in new
    assert new.endswith(f"at the end: 0.1.\n\n{report.END}\n\nmore\n")
    assert report.page(new, data()) == new
    with pytest.raises(ValueError, match="figures"):
        report.page("# A\n", data())


def test_the_picture_has_a_bar_and_a_mark_for_each_figure() -> None:
    drawn = ET.fromstring(figure.picture(data()))  # noqa: S314  # our own
    shapes = [shape.tag.rpartition("}")[2] for shape in drawn.iter()]
    background, legend = 1, 4
    assert shapes.count("rect") == background + legend + 2 * 4 + 3
    marks = [one for one in drawn.iter() if one.get("stroke-width") == "2"]
    assert len(marks) == 1 + 2 * 4
    wide, high = (float(drawn.attrib[name]) for name in ("width", "height"))
    for shape in drawn.iter():
        assert 0 <= float(shape.get("x", 0)) < wide
        assert 0 <= float(shape.get("y", 0)) < high
