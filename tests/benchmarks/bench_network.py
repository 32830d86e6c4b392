"""Allreduces, and a training, of ranks behind slow links: Gloo, and SwitchML in 32, 8 and 4 bits.

Run by `make bench-network`, in namespaces of its own: see ci/bench-network.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))
from collections.abc import Sequence

from network import figure, links, measuring, report

from patchgen.cli import params
from patchgen.errors import PatchgenError

SIZE = 2**22  # float32
STEPS = 10  # of the training


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="an interpreter with a torch")
    parser.add_argument("--output", type=Path, required=True, help="the directory of the results")
    parser.add_argument("--rate", type=float, default=100.0, help="of a link, Mbit/s")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=STEPS, help="of the training; 0: none")
    parser.add_argument("--numel", type=int, default=SIZE, help="float32 of the tensor")
    parser.add_argument("--racks", type=int, nargs="*", default=[], help="of the most ranks")
    parser.add_argument("--page", type=Path, help="a page of docs to write the figures into")
    given = parser.parse_args(words)
    hosts = max(given.ranks)
    for racks in given.racks:
        if racks < 1 or hosts % racks:
            parser.error(f"--racks {racks}: {hosts} hosts are not as many in each rack")
    return given


def main() -> None:
    given = arguments()
    try:
        built = measuring.built(os.path.abspath(given.python), params.cache(None))
    except PatchgenError as error:
        sys.exit(f"bench-network: {error}")
    try:
        links.own()
    except OSError as error:
        sys.exit(f"bench-network: {error}; start it by `make bench-network`")
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        found = {str(ranks): measured(built, Path(scratch), ranks, given) for ranks in given.ranks}
        most = max(given.ranks)
        racks = {
            str(count): measured(built, Path(scratch), most, given, racks=count)
            for count in given.racks
        }
    data = {
        "rate": given.rate, "numel": given.numel, "processors": os.cpu_count(),
        "kernel": platform.release(), "burst": links.BURST, "queue": links.QUEUE,
        "congestion": links.CONGESTION, "load": os.getloadavg()[0], "ranks": found,
        "racks": racks,
    }  # fmt: skip
    (given.output / "network.json").write_text(json.dumps(data, indent=1) + "\n")
    (given.output / "network.svg").write_text(figure.picture(data))
    if given.page:
        given.page.write_text(report.page(given.page.read_text(), data))
        given.page.with_suffix(".svg").write_text(figure.picture(data))
    print("\n".join(report.lines(data)))
    print(f"\nThe picture: {given.output / 'network.svg'}; all figures: network.json beside it")


def measured(
    built: measuring.Built, scratch: Path, ranks: int, given: argparse.Namespace, racks: int = 0
) -> Any:
    begun = time.monotonic()
    options = {
        "numel": given.numel, "rounds": given.rounds, "bits": () if racks else measuring.BITS,
        "steps": given.steps if ranks == max(given.ranks) and not racks else 0,
        "training_bits": measuring.TRAINING_BITS, "racks": racks,
    }  # fmt: skip
    found = measuring.measure(built, scratch, ranks, given.rate, options, {})
    if not racks:
        failover = {"SWITCHML_FAILOVER": "1"}
        plain = {**options, "bits": (), "steps": 0}
        again = measuring.measure(built, scratch, ranks, given.rate, plain, failover)
        found["failover"] = again["seconds"]["float32"]
    found["predicted"] = {
        way: measuring.predicted(way, ranks, given.numel, given.rate, found["latency"])
        for way in found["seconds"]
        if way != "racks"
    }
    took = time.monotonic() - begun
    print(f"{ranks} ranks: measured in {took:.0f} s", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
