"""The hosts of docs/cluster.md, on which its blocks of commands run as they stand."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support import cluster
from support.programs import script
from support.torch import Plugin
from support.waiting import ENOUGH

# An address that the page names is that of the host of its command.
ADDRESSES = {"head": "10.0.0.9", "other": "10.0.0.10"}
INTERFACE = "ens1f0"


def make_environment(directory: Path, plugin: Plugin, cache: Path) -> dict[str, str]:
    """Return variables by which the page finds its programs and the plugin's Python."""
    programs = directory / "bin"
    programs.mkdir()
    (programs / "switchml-patch").symlink_to(Path(sys.executable).with_name("switchml-patch"))
    script(programs / "torchrun", '#!/bin/sh\nexec python3 -m torch.distributed.run "$@"\n')
    env = cluster.environment(TMPDIR=str(directory), XDG_CACHE_HOME=str(cache))
    env["PATH"] = f"{programs}:{plugin.python.parent}:{env['PATH']}:/usr/sbin:/sbin"
    return env


@dataclass(frozen=True)
class PageHosts:
    """Hosts of the page, and the environment of their shells."""

    hosts: Sequence[cluster.Host]
    env: Mapping[str, str]

    def start(self, host: cluster.Host, text: str, directory: Path) -> subprocess.Popen[str]:
        """Start a shell with the text of a block."""
        return subprocess.Popen(
            host.command("sh", "-euc", text), cwd=directory, env={**self.env},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip

    @contextlib.contextmanager
    def serving(self, host: cluster.Host, text: str, directory: Path, line: str) -> Iterator[None]:
        """Run a block that ends when it is told to, once it has printed a line."""
        started = self.start(host, text, directory)
        try:
            assert started.stdout is not None
            assert f"{line}\n" in iter(started.stdout.readline, "")
            yield
        finally:
            os.killpg(started.pid, signal.SIGTERM)
            started.communicate()

    def run(self, text: str, directory: Path) -> None:
        """Run a block on the first host."""
        started = self.start(self.hosts[0], text, directory)
        output = started.communicate(timeout=ENOUGH)[0]
        assert started.returncode == 0, output

    def run_on_each(self, text: str, directory: Path) -> None:
        """Run a block on the first host, and on the other with the other number."""
        texts = [text, text.replace("--node-rank 0", "--node-rank 1")]
        started = [self.start(host, one, directory) for host, one in zip(self.hosts, texts)]
        lines = [one.communicate(timeout=ENOUGH)[0] for one in started]
        assert [one.returncode for one in started] == [0, 0], lines
