"""The real client library around the software switch: its programs, and ranks with a torch."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from patchgen.extras.lab import lab
from patchgen.system.process import CompletedRun, Program, side_by_side
from support import real_client
from support.configs import with_values
from support.launcher import Launcher, Rank, Started
from support.shared import once
from support.torch import checked
from support.waiting import captured

SOUND = lab.Faults()
FAULTS = lab.Faults(loss=0.02, duplicate=0.02, reorder=0.02, seed=1)


@dataclass(frozen=True)
class Settings:
    """Settings of a rank's client."""

    threads: int = 1
    outstanding: int = 64
    packet_numel: int = 256
    timeout: int = 10

    def config(self, running: lab.Lab, rank: int, workers: int) -> str:
        numbers = lab.cpus()
        # Threads share a processor where there are too few, which DPDK takes as well.
        own = [numbers[(rank + thread) % len(numbers)] for thread in range(self.threads)]
        # Without its name DPDK's main thread is on the lowest core: then threads that wait for each
        # other, those of the same number, are on the same one.
        text = lab.compose(
            f"{running.device(rank)} --main-lcore={own[-1]}",
            running.port,
            rank=str(rank),
            cores=",".join(own),
            timeout=self.timeout,
        )
        values = {
            "rank": rank,
            "num_workers": workers,
            "num_worker_threads": self.threads,
            "max_outstanding_packets": self.outstanding,
            "packet_numel": self.packet_numel,
        }
        return with_values(text, values)


def dummy(factory: pytest.TempPathFactory) -> Path:
    """Return a SWITCHML_HOME whose library has the dummy backend only."""
    given = real_client.source()
    return once(factory, "dummy", lambda place: checked("client", "build", given, "-o", place))


def compiled(source: Path, home: Path, program: Path, *flags: str) -> Path:
    """Return a program that calls the client library of a SWITCHML_HOME, with nothing between."""
    environ = {**os.environ, "PKG_CONFIG_PATH": str(home / "lib" / "pkgconfig")}
    command = ["pkg-config", "--cflags", "--libs", "switchml-client"]
    found = captured(command, env=environ, check=True)
    dpdk = captured(["pkg-config", "--cflags", "libdpdk"], check=True)
    # The headers want the macros that the library was built with, and find each other.
    macros = ["-DDPDK", "-DDUMMY", "-DTIMEOUTS", "-DNDEBUG", "-include", "rte_config.h"]
    subprocess.run(
        ["g++", "-std=c++17", "-O2", *flags, *macros, *dpdk.stdout.split(),
         f"-I{home}/include/switchml", str(source), "-o", str(program), *found.stdout.split()],
        check=True,
    )  # fmt: skip
    return program


def programs(
    switch: str,
    command: Sequence[object],
    workers: int,
    directory: Path,
    *,
    settings: Settings,
    faults: lab.Faults,
    limit: float = 600,
) -> tuple[list[CompletedRun], lab.Lab]:
    """Run a program as each worker of a new switch, with its switchml.cfg."""
    with lab.running(switch, workers, faults) as running:
        ended = run_workers(running, command, workers, directory, settings=settings, limit=limit)
    return ended, running


def run_workers(
    running: lab.Lab,
    command: Sequence[object],
    workers: int,
    directory: Path,
    *,
    settings: Settings = Settings(),
    limit: float = 600,
    env: Mapping[str, str] | None = None,
    only: Sequence[int] = (),
) -> list[CompletedRun]:
    """Run a program as each worker of a running switch, or `only` as some of them."""
    found = []
    for rank in only or range(workers):
        place = directory / "ranks" / str(rank)
        place.mkdir(parents=True, exist_ok=True)
        (place / "switchml.cfg").write_text(settings.config(running, rank, workers))
        environ = {**os.environ, "GLOG_logtostderr": "1", **(env or {})}
        found.append(Program([str(word) for word in command], place, environ))
    return side_by_side(found, limit=limit, patience=60)


@dataclass(frozen=True)
class LabLauncher(Launcher):
    """Ranks with a torch, around a switch of their own in each run."""

    switch: str = ""
    settings: Settings = Settings()
    faults: lab.Faults = SOUND
    labs: list[lab.Lab] = field(default_factory=list)
    """Labs of all runs."""

    def config(self, values: Mapping[str, object]) -> str:
        rank, workers = int(str(values["rank"])), int(str(values["num_workers"]))
        text = self.settings.config(self.labs[-1], rank, workers)
        return with_values(text, {k: v for k, v in values.items() if k != "controller_port"})

    def crossed(self, case: str, **given: Any) -> list[list[Rank]]:
        """Return two jobs of two ranks, of which each has its rank 1 at the switch of the other."""
        around = lab.running(self.switch, 2, self.faults), lab.running(self.switch, 2, self.faults)
        with around[0] as one, around[1] as other:
            begun = [
                Crossed(**{**vars(self), "labs": labs}).begin(case, 2, **given)
                for labs in ([one, other], [other, one])
            ]
            return [self.collect(ranks) for ranks in begun]

    def __call__(self, case: str, world: int, **given: Any) -> list[Rank]:
        config = {"prepostprocessor": "cpu_exponent_quantizer", **given.pop("config", {})}
        with lab.running(self.switch, world, self.faults) as running:
            self.labs.append(running)
            return super().__call__(case, world, config=config, **given)


class Stoppable(LabLauncher):
    """A case is told of the switch's process, to stop it."""

    def begin(self, case: str, world: int, **given: Any) -> list[Started]:
        given["arguments"] = {**given.pop("arguments"), "switch": self._find_switch()}
        return super().begin(case, world, **given)

    def _find_switch(self) -> int:
        directory = self.labs[-1].directory
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                ours = os.fsencode(directory) in (place / "cmdline").read_bytes()
                if ours and (place / "exe").resolve() == Path(self.switch).resolve():
                    return int(place.name)
        raise AssertionError(f"no switch runs in {directory}")


def one_file(running: lab.Lab, timeout: int = 10) -> str:
    """Compose one switchml.cfg for all ranks, with values that each fills in."""
    rank = "${RANK}"
    return lab.compose(running.device(rank), running.port, rank=rank, cores="auto", timeout=timeout)


class OneFile(LabLauncher):
    """The same text for all ranks, with files of DPDK that only one process can have."""

    def config(self, values: Mapping[str, object]) -> str:
        given = {"prepostprocessor": values["prepostprocessor"]}
        return with_values(one_file(self.labs[-1]).replace(" --no-shconf", ""), given)


class Crossed(LabLauncher):
    """A rank's switch is the lab of its number."""

    def config(self, values: Mapping[str, object]) -> str:
        own = self.labs[int(str(values["rank"]))]
        return LabLauncher.config(replace(self, labs=[own]), values)
