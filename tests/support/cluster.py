"""A job over several hosts: its hosts, and what the ranks say."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = Path(__file__).parents[1] / "payload" / "cluster_rank.py"


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
