"""Commands `switchml-patch run` of several hosts, each in a directory of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from support import cluster
from support.hosts import ADDRESS
from support.waiting import ENOUGH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from support.cluster import Host
    from support.hosts import Site

_PORT = 29400


@dataclass(frozen=True)
class Command:
    """A command that was started."""

    process: subprocess.Popen[bytes]
    directory: Path

    @property
    def code(self) -> int:
        """Exit code, once it has ended."""
        return self.process.wait(ENOUGH)

    @property
    def out(self) -> str:
        """Output so far."""
        return (self.directory / "stdout").read_text()

    @property
    def err(self) -> str:
        """Messages so far."""
        return (self.directory / "stderr").read_text()

    @property
    def report(self) -> dict[str, Any]:
        """Report, once it has ended."""
        found: dict[str, Any] = json.loads((self.directory / "report.json").read_text())
        return found

    @property
    def last(self) -> str:
        """Last line of the messages."""
        return self.err.strip().splitlines()[-1]


def begin(
    directory: Path,
    options: Sequence[str | Path],
    command: Sequence[str | Path],
    env: Mapping[str, str],
    before: Sequence[str] = (),
) -> Command:
    """Starts `run` with these options in a new directory, by `before`."""
    directory.mkdir()
    tool = [*before, sys.executable, "-m", "patchgen", "run", "--report", "report.json"]
    with (directory / "stdout").open("wb") as out, (directory / "stderr").open("wb") as err:
        process = subprocess.Popen(
            [*tool, *map(str, options), "--", *map(str, command)], cwd=directory, env=dict(env),
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
    return Command(process, directory)


def begin_on(
    hosts: Sequence[Host],
    directory: Path,
    options: Sequence[str | Sequence[str]],
    command: Sequence[str | Path],
    env: Mapping[str, str],
) -> list[Command]:
    """Starts `run` with two ranks on each host, the last host first.

    Args:
        hosts: the first is that of the endpoint.
        directory: where each gets a directory of its name.
        options: each is of all hosts, with {node} for their numbers, or there is one for each.
        command: command of the ranks.
        env: environment of all.
    """
    place = [f"--nnodes={len(hosts)}", f"--rdzv-endpoint={hosts[0].name}:{_PORT}"]
    place += ["--nproc-per-node=2", "--require"]
    started = []
    for node, host in reversed([*enumerate(hosts)]):
        own = [one.format(node=node) if isinstance(one, str) else one[node] for one in options]
        place_of = directory / host.name
        started.append(begin(place_of, [*place, *own], command, env, host.command()))
    return started[::-1]


def begin_in_lab(
    hosts: Sequence[Site],
    cache: Path,
    directory: Path,
    command: Sequence[str | Path],
    *options: str | Path,
    address: str = ADDRESS,
) -> list[Command]:
    """Starts `run` with a rank on each host, of which the first has the software switch.

    Args:
        hosts: sites of the hosts.
        cache: directory of what was built.
        directory: where each gets a directory of its number.
        command: command of the ranks.
        options: more options of `run`.
        address: address of the first host.
    """
    env = cluster.environment(TMPDIR=str(directory), XDG_CACHE_HOME=str(directory / "cache"))
    place = ["--lab", f"--cache={cache}", f"--nnodes={len(hosts)}"]
    place += [f"--rdzv-endpoint={address}:{_PORT}"]
    return [
        begin(
            directory / f"host-{node}", [*place, f"--node-rank={node}", *options], command,
            {**env, "SWITCHML_HOST": f"host-{node}"}, host.enter,
        )
        for node, host in enumerate(hosts)
    ]  # fmt: skip
