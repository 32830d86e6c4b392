"""Variables of ranks on this machine, and which ranks failed, for all commands that start them."""

from __future__ import annotations

from collections.abc import Sequence

from patchgen.system.ports import free_port
from patchgen.system.process import CompletedRun

_LOOPBACK = "127.0.0.1"
ALONE = {"GLOO_SOCKET_IFNAME": "lo"}
"""Variables for ranks on one machine, whose host name need not resolve."""


def number_ranks(workers: int) -> list[dict[str, str]]:
    """Return torchrun's variables for each rank: its number, and the address of rank 0."""
    size, port = str(workers), str(free_port())
    shared = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    shared.update(MASTER_ADDR=_LOOPBACK, MASTER_PORT=port)
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(workers)]


def list_failed(runs: Sequence[CompletedRun]) -> dict[int, int]:
    """Return the codes of ranks that failed by themselves, by rank, the earliest first."""
    failed = [rank for rank, run in enumerate(runs) if run.code and not run.killed]
    return {rank: runs[rank].code for rank in sorted(failed, key=lambda rank: runs[rank].ended)}
