"""A job over several hosts: one configuration, the switch as a process, and what the ranks say."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.waiting import ENOUGH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM = Path(__file__).parents[1] / "payload" / "cluster_rank.py"
_OWN = ("rank", "num_workers")  # of each rank, and left out of a file for all


@dataclass(frozen=True)
class Host:
    """A host of the test: namespaces of a process, and the name that programs see there."""

    net: str
    name: str
    address: str
    names: Path
    """A file that serves as /etc/hosts."""

    def command(self, *command: str | Path) -> list[str]:
        """A command that runs another one on this host."""
        enter = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'
        return [
            "nsenter", f"--net={self.net}/net", "unshare", "--uts", "--mount",
            "sh", "-ec", enter, "sh", self.name, str(self.names), *map(str, command),
        ]  # fmt: skip


@contextlib.contextmanager
def switch(workers: int, cache: Path, way: Sequence[str] = (), host: str = "") -> Iterator[str]:
    """The simulator's switch as a process of its own; gives its address.

    Args:
        workers: ranks that sum together.
        cache: directory of compiled programs.
        way: words that start a command on a host.
        host: address to listen on, 127.0.0.1 by default.
    """
    command = [*way, sys.executable, "-m", "patchgen", "simulator", "serve", "--cache", str(cache)]
    command += ["--workers", str(workers), "--listen", f"{host or '127.0.0.1'}:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.fullmatch(r"listening on (.*)\n", process.stdout.readline())
            assert found is not None
            yield found[1]
        finally:
            process.terminate()
            process.wait(ENOUGH)


def write_configuration(path: Path, home: Path, address: str) -> None:
    """Writes one switchml.cfg for all ranks, whose switch is at `address`."""
    host, _, port = address.rpartition(":")
    values = {"controller_ip": host, "controller_port": port}
    lines = []
    for line in (home / "switchml.cfg").read_text().splitlines():
        key = line.partition("=")[0].strip()
        if key in values:
            lines.append(f"{key} = {values[key]}")
        elif key not in _OWN:
            lines.append(line)
    path.write_text("\n".join([*lines, "[backend.simulator]", "external_aggregator = true", ""]))


def read_records(directory: Path, size: int) -> list[dict[str, Any]]:
    """Records of the ranks, by rank."""
    found = [json.loads((directory / f"{rank}.json").read_text()) for rank in range(size)]
    assert [one["rank"] for one in found] == [*range(size)]
    return found


def check_delegated(found: Sequence[dict[str, Any]], local: int) -> None:
    """Checks that ranks have delegated and summed rightly; a host has `local` of them."""
    for one in found:
        assert one["right"], one
        assert one["report"]["delegating"], one
        assert one["report"]["calls"] > 0, one
        assert one["size"] == len(found)
        assert one["local"] == [one["rank"] % local, local]


def environment(**env: str) -> dict[str, str]:
    """Environment of a job, with nothing of the developer's own ranks."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
    return {**kept, "OMP_NUM_THREADS": "1", **env}
