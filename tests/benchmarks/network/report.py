"""The figures of a run as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from patchgen.system import tables

BEGIN, END = "<!-- figures of make bench-network -->", "<!-- end of figures -->"
_HEADINGS = ["ranks", "way", "measured", "predicted", "relative to Gloo"]
_FAILOVER = ["ranks", "without", "with", "relative"]
_RACKS = ["racks", "measured", "relative to Gloo"]
_TRAINING = ["way", "steps a second", "relative to Gloo"]


def name(way: str) -> str:
    """Name of a way for people."""
    return {"gloo": "stock Gloo", "float32": "SwitchML float32"}.get(way, f"SwitchML {way} bits")


def lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Tables of the allreduces and of the training, and how busy the machine was."""
    for title, headings, rows in _tables(data):
        yield title
        yield ""
        yield from tables.lines(headings, rows)
        yield ""
    yield _machine(data)


def _tables(data: Mapping[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, headings and rows of each table."""
    size = data["numel"] * 4 / 2**20
    title = f"An allreduce of {size:g} MiB of float32, on links of {data['rate']:g} Mbit/s:"
    yield title, _HEADINGS, [*_rows(data)]
    yield (
        "SwitchML float32 with `SWITCHML_FAILOVER=1`, where nothing fails:",
        _FAILOVER,
        [*_failover(data)],
    )
    if data.get("racks"):
        title = "The most ranks in racks, with a switch each, beside stock Gloo in the same run:"
        yield title, _RACKS, [*_racks(data)]
    for ranks, found in data["ranks"].items():
        if "steps" in found:
            title = f"A training of {found['weights']:,} weights on {ranks} ranks:"
            yield title, _TRAINING, [*_training(found)]


def _machine(data: Mapping[str, Any]) -> str:
    busy = ", ".join(f"{one['processors']:.1f}" for one in data["ranks"].values())
    return (
        f"Processors that the ranks kept busy: {busy} of {data['processors']}. "
        f"Load of the machine at the end: {data['load']:.1f}."
    )


def page(text: str, data: Mapping[str, Any]) -> str:
    """A page of the documentation with the tables of this run between its two marks.

    Raises:
        ValueError: it does not have the marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} and {END}")
    parts = [
        part
        for title, headings, rows in _tables(data)
        for part in (title, _markdown(headings, rows))
    ]
    return "\n\n".join([before + begin, *parts, _machine(data), end + after])


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rows(data: Mapping[str, Any]) -> Iterator[list[str]]:
    for ranks, found in data["ranks"].items():
        gloo = found["seconds"]["gloo"]["median"]
        for way, seconds in found["seconds"].items():
            median = seconds["median"]
            yield [
                ranks, name(way), f"{median:.2f} s", f"{found['predicted'][way]:.2f} s",
                f"{median / gloo:.2f}",
            ]  # fmt: skip


def _failover(data: Mapping[str, Any]) -> Iterator[list[str]]:
    for ranks, found in data["ranks"].items():
        without, used = found["seconds"]["float32"]["median"], found["failover"]["median"]
        yield [ranks, f"{without:.3f} s", f"{used:.3f} s", f"{used / without:.3f}"]


def _racks(data: Mapping[str, Any]) -> Iterator[list[str]]:
    for racks, found in data["racks"].items():
        seconds = {way: each["median"] for way, each in found["seconds"].items()}
        ratio = seconds["racks"] / seconds["gloo"]
        yield [racks, f"{seconds['racks']:.2f} s", f"{ratio:.2f}"]


def _training(found: Mapping[str, Any]) -> Iterator[list[str]]:
    for way, rate in found["steps"].items():
        yield [name(way), f"{rate:.2f}", f"{rate / found['steps']['gloo']:.2f}"]
