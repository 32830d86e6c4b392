"""Allreduce through the real client library and the software switch, against Gloo.

Run by `make bench`; the ratios are of the medians of all rounds, from runs that alternate. It needs
a client library with DPDK, or its source, and is left out where neither SWITCHML_HOME nor
SWITCHML_SOURCE names one. Gloo's ranks are in network namespaces of their own, with a veth between
them; without root, or `ip`, they are on the loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from support.hosts import cabled

from patchgen.system.ports import free_port

RANKS = 2
RANK = Path(__file__).parents[1] / "payload" / "programs" / "lab_rounds.py"
RUNS = 3
ROUNDS = {256: 200, 2**20: 10, 2**22: 5}  # of an allreduce of so many float32
PYTHON = os.environ.get("SWITCHML_TEST_PYTHON", "/usr/bin/python3")
ABSENT = """lab: left out, as no client library with DPDK is named. With a clone of SwitchML:
  switchml-patch client build PATH --dpdk -o sml
  SWITCHML_HOME=$PWD/sml make bench"""


def rank_command() -> list[str]:
    return [PYTHON, str(RANK), json.dumps(ROUNDS)]


def read(out: str) -> dict[int, list[float]]:
    (line,) = [line for line in out.splitlines() if "RESULT " in line]
    found: dict[str, list[float]] = json.loads(line.partition("RESULT ")[2])
    return {int(numel): times for numel, times in found.items()}


def by_switch(home: Path) -> dict[int, list[float]]:
    command = [sys.executable, "-m", "patchgen", "run", "--lab", "--way", "plugin", "--require"]
    options = ["--switchml-home", str(home), "--dpdk", "--workers", str(RANKS)]
    ended = subprocess.run(
        [*command, *options, "--torch", PYTHON, "--", *rank_command()],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if ended.returncode:
        sys.exit(f"{' '.join(command)} ... ended with {ended.returncode}:\n{ended.stderr}")
    return read(ended.stdout)


def by_gloo(ways: Sequence[Sequence[str]], common: Mapping[str, str]) -> dict[int, list[float]]:
    """Ranks that are started each in its own way, with Gloo as it is."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(len(ways)), **common}
    ranks = [
        subprocess.Popen(
            [*way, *rank_command()], env={**environ, "RANK": str(rank)}, stdout=subprocess.PIPE,
            text=True,
        )
        for rank, way in enumerate(ways)
    ]  # fmt: skip
    said = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit("a rank with Gloo has failed; why stands above")
    return read("".join(said))


@contextlib.contextmanager
def reference() -> Iterator[tuple[str, Sequence[Sequence[str]], Mapping[str, str]]]:
    """Over what Gloo sums, how its ranks are started, and their environment."""
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(cabled("bench", ("10.83.78.1", "10.83.78.2")))
        except (OSError, subprocess.CalledProcessError):
            own = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
            yield "the loopback", [[]] * RANKS, own
        else:
            own = {"MASTER_ADDR": "10.83.78.1", "GLOO_SOCKET_IFNAME": "bench"}
            yield "veth", [host.enter for host in hosts], own


def find_library(scratch: Path) -> Path | None:
    """The client library to measure."""
    if "SWITCHML_HOME" in os.environ:
        return Path(os.environ["SWITCHML_HOME"]).resolve()
    if "SWITCHML_SOURCE" not in os.environ:
        return None
    home, source = scratch / "home", os.environ["SWITCHML_SOURCE"]
    build = ["client", "build", source, "--dpdk", "-o", str(home)]
    subprocess.run([sys.executable, "-m", "patchgen", *build], check=True)
    return home


def show(numel: int, ours: float, theirs: float, over: str) -> None:
    if numel == min(ROUNDS):
        own, other, ratio = f"{ours * 1e6:.0f} us", f"{theirs * 1e6:.0f} us", ours / theirs
    else:
        own, other = (f"{numel * 32 / each / 1e9:.2f} Gbit/s" for each in (ours, theirs))
        ratio = theirs / ours
    size = f"{numel * 4 / 2**10:,.0f} KiB"
    print(f"lab, allreduce of {size}: {own}, Gloo over {over} {other}, ratio {ratio:.3f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        home = find_library(Path(directory))
        if home is None:
            print(ABSENT)
            return
        ours: dict[int, list[float]] = {numel: [] for numel in ROUNDS}
        theirs: dict[int, list[float]] = {numel: [] for numel in ROUNDS}
        with reference() as (over, ways, common):
            for _ in range(RUNS):
                own = {**common, "MASTER_PORT": str(free_port())}
                for found, all_of in ((by_switch(home), ours), (by_gloo(ways, own), theirs)):
                    for numel, times in found.items():
                        all_of[numel] += times
        print()
        for numel in ROUNDS:
            show(numel, statistics.median(ours[numel]), statistics.median(theirs[numel]), over)


if __name__ == "__main__":
    main()
