"""A job over several hosts, and the records of its ranks."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.hosts import INTERFACE, Site, cabled
from support.programs import script

PROGRAM = Path(__file__).parents[1] / "payload" / "cluster_train.py"

_AGENT = '#!/bin/sh\nshift\nexec {way} sh -c "$*"\n'  # a remote shell, called as AGENT HOST COMMAND
MPI_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True)
class Host:
    """A host of a test: namespaces of a process, and its host name."""

    net: str
    name: str
    address: str
    binds: Mapping[str, Path]
    """Files and directories of the test, by the path where programs see them."""

    def command(self, *command: str | Path) -> list[str]:
        """Return a command that runs another one on this host."""
        enter = 'hostname "$0"; for bind; do shift; [ "$bind" != -- ] || break; %s; done; exec "$@"'
        binds = [f"{path}:{place}" for place, path in self.binds.items()]
        return [
            "nsenter", f"--net={self.net}/net", "unshare", "--uts", "--mount",
            "sh", "-ec", enter % 'mount --bind "${bind%:*}" "${bind##*:}"', self.name,
            *binds, "--", *map(str, command),
        ]  # fmt: skip


@contextlib.contextmanager
def two_hosts(
    addresses: Mapping[str, str], directory: Path, interface: str = INTERFACE
) -> Iterator[list[Host]]:
    """Make two hosts, by name, with a cable between them; each knows both names."""
    with cabled(interface, [*addresses.values()]) as sites:
        yield give_names(sites, addresses, directory)


def give_names(sites: Sequence[Site], addresses: Mapping[str, str], directory: Path) -> list[Host]:
    """Give host names to sites, and let each resolve all of them."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to give each host a name of its own")
    names = directory / "hosts"
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
    names.write_text("\n".join([*lines, ""]))
    return [
        Host(site.namespaces, name, address, {"/etc/hosts": names})
        for site, (name, address) in zip(sites, addresses.items())
    ]


def read_records(directory: Path, size: int) -> list[dict[str, Any]]:
    found = [json.loads((directory / f"{rank}.json").read_text()) for rank in range(size)]
    assert [one["rank"] for one in found] == [*range(size)]
    return found


def check_trained(found: Sequence[dict[str, Any]], local: int) -> None:
    """Check that ranks have one training, and delegated; a host has `local` of them."""
    for one in found:
        assert one["right"], one
        assert one["report"]["delegating"], one
        assert one["size"] == len(found)
        assert one["local"] == [one["rank"] % local, local]
        assert one["weights"] == found[0]["weights"]
        assert one["report"]["calls"] >= len(one["losses"])
        assert one["losses"][-1] < one["losses"][0] / 2


def environment(**env: str) -> dict[str, str]:
    """Return the environment of a job, without variables of the developer's ranks."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
    return {**kept, "OMP_NUM_THREADS": "1", **env}


def make_agent(host: Host, directory: Path) -> Path:
    """Write the program with which mpirun starts its daemon on a host."""
    return script(directory / "agent", _AGENT.format(way=shlex.join(host.command())))
