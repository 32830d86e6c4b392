"""Measurement for one number of ranks, and its expected time."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from network import links
from patchgen.core.library.config import compose_simulated
from patchgen.core.torch import PLUGIN
from patchgen.extras.lab.simulator import aggregator
from patchgen.extras.train.job import Job
from patchgen.extras.train.setup import prepare

RANK = Path(__file__).parents[2] / "payload" / "network_rank.py"
TRAIN = Path(__file__).parents[3] / "patchgen" / "extras" / "train" / "demo" / "payload"
PORT = 50099
BITS = (8, 4)
TRAINING_BITS = (4,)
BUCKET = 512  # values that share a scale
FRAME, PAYLOAD = 1514, 1448  # bytes of a full frame of Ethernet, and of TCP's data in it
LIMIT = 400.0  # seconds that the ranks may take


@dataclass(frozen=True)
class Built:
    """Programs of a measurement."""

    python: str
    """An interpreter with a torch."""
    environ: Mapping[str, str]
    """Environment in which it finds the plugin."""
    aggregator: str


def built(python: str, cache: str) -> Built:
    """The plugin and the aggregator, from the cache where it has them.

    Raises:
        PatchgenError: something could not be built, or the interpreter has no torch.
    """
    environ = {name: text for name, text in os.environ.items() if not name.startswith("SWITCHML_")}
    job = Job(command=(), python=python, cache=cache, cwd="/", environ=environ, way=PLUGIN)
    print("building the plugin and the simulator, unless they are there", file=sys.stderr)
    setup = prepare(job)
    path = f"{setup.access.environ['PYTHONPATH']}:{TRAIN}"
    return Built(
        python,
        {**environ, **setup.access.environ, "PYTHONPATH": path},
        aggregator.build(cache, environ),
    )


def sent(way: str, ranks: int, numel: int) -> float:
    """Bytes of data that each link carries in one direction, for an allreduce of float32."""
    ring = 2 * (ranks - 1) / ranks
    if way == "gloo":
        return ring * 4 * numel
    if way == "float32":
        return 4 * numel
    lane = int(way) + math.ceil(math.log2(ranks))
    scales = math.ceil(numel / BUCKET)
    return 4 * math.ceil(numel / (32 // lane)) + ring * 4 * scales


def predicted(way: str, ranks: int, numel: int, rate: float, latency: Mapping[str, float]) -> float:
    """Seconds: bytes over rate, and the latency of an allreduce of one value.

    Args:
        way: gloo, float32, or the number of bits.
        ranks: how many.
        numel: of the tensor.
        rate: of a link, Mbit/s.
        latency: of Gloo and of SwitchML, in seconds; fewer bits need both.
    """
    wait = latency["gloo"] * (way != "float32") + latency["switchml"] * (way != "gloo")
    return 8 * sent(way, ranks, numel) / (rate * 1e6 * PAYLOAD / FRAME) + wait


def measure(
    programs: Built,
    scratch: Path,
    ranks: int,
    rate: float,
    options: Mapping[str, Any],
    variables: Mapping[str, str],
) -> Any:
    """Measures with all ranks; returns rank 0's figures and how busy the processors were.

    Args:
        programs: what runs.
        scratch: a directory for the ranks' files.
        ranks: how many.
        rate: of a link, Mbit/s.
        options: of tests/payload/network_rank.py.
        variables: environment of the ranks, besides what all measurements have.
    """
    each = ranks // max(options["racks"], 1)  # ranks of a switch
    addresses = [f"{links.HUB}:{PORT + number}" for number in range(ranks // each)]
    environ = {
        **programs.environ,
        "OMP_NUM_THREADS": "1",
        "SWITCHML_REQUIRE": "1",
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": links.FIRST,
        "MASTER_PORT": "29500",
        "GLOO_SOCKET_IFNAME": links.INTERFACE,
        **variables,
    }
    with links.star(ranks, rate) as star:
        started: list[subprocess.Popen[str]] = []
        with links.end_after(started):
            for address in addresses:
                switch = subprocess.Popen(
                    [*star.hub, programs.aggregator, f"--listen={address}", f"--workers={each}"],
                    stdout=subprocess.PIPE, text=True,
                )  # fmt: skip
                started.append(switch)
                assert switch.stdout is not None
                if not switch.stdout.readline():
                    sys.exit("the aggregator does not start; why stands above")
            processors, clock = os.times(), time.monotonic()
            for rank in range(ranks):
                config = scratch / f"{rank}.cfg"
                rack, worker = divmod(rank, each)
                text = compose_simulated(rank=worker, workers=each, aggregator=addresses[rack])
                config.write_text(text)
                own = {**environ, "RANK": str(rank), "SWITCHML_CONFIG": str(config)}
                if options["racks"]:
                    own.update(SWITCHML_HOST=f"host{rank}", SWITCHML_RACK=f"rack{rack}")
                with (scratch / f"{rank}.log").open("w") as log:
                    started.append(subprocess.Popen(
                        [*star.at(rank), programs.python, str(RANK), json.dumps(options)],
                        env=own, stdout=subprocess.PIPE, stderr=log, text=True,
                    ))  # fmt: skip
            said = _collect_output(scratch, started[len(addresses) :])
    after = os.times()
    busy = sum(after[2:4]) - sum(processors[2:4])
    (line,) = [line for line in said.splitlines() if line.startswith("RESULT ")]
    found = json.loads(line.partition(" ")[2])
    found["seconds"] = {
        way: {"median": statistics.median(each), "all": each}
        for way, each in found["seconds"].items()
    }
    found["processors"] = busy / (time.monotonic() - clock)
    return found


def _collect_output(scratch: Path, ranks: Sequence[subprocess.Popen[str]]) -> str:
    """Waits for the ranks and returns their output; ends the program where one failed."""
    deadline = time.monotonic() + LIMIT
    while any(rank.poll() is None for rank in ranks):
        failed = [number for number, rank in enumerate(ranks) if rank.poll()]
        if failed or time.monotonic() > deadline:
            logs = (scratch / f"{number}.log" for number in failed or range(len(ranks)))
            told = "\n".join(log.read_text()[-1500:] for log in logs)
            sys.exit(f"ranks {failed or 'all'} failed or took {LIMIT:g} s:\n{told}")
        time.sleep(0.1)
    return "".join(rank.communicate()[0] for rank in ranks)
