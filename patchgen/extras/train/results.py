"""Results of a job, from the files that its ranks left behind."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from patchgen.extras.train.job import Rank, Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.extras.train.job import Setup


def read_failures(directory: str) -> dict[int, int] | None:
    """Exit codes of the ranks that failed, the first first; None where none was started."""
    try:
        with open(os.path.join(directory, "failed.json"), encoding="ascii") as file:
            return {int(rank): code for rank, code in json.load(file).items()}
    except FileNotFoundError:
        return None


def collect_result(
    setup: Setup, directory: str, code: int, codes: Mapping[int, int], *, restarted: bool = False
) -> Result:
    """Collects the result from the files that the ranks wrote into a directory.

    Args:
        setup: setup of the ranks.
        directory: directory of the job.
        code: exit code of the job.
        codes: exit codes of the ranks that failed.
        restarted: a rank may have been started again; only its last report counts.
    """
    ranks, elsewhere, makers = [], set(), set()
    for data in _read_files(os.path.join(directory, "ranks")):
        if "root" in data:
            elsewhere.add(data["root"])
        elif "maker" in data:
            makers.add(data["maker"])
        else:
            ranks.append(_read_rank(data))
    if restarted:
        ranks = [*{rank.rank: rank for rank in ranks}.values()]
    ranks.sort(key=lambda rank: rank.rank)
    return Result(setup, code, codes, ranks, sorted(elsewhere), makers=sorted(makers))


def _read_files(directory: str) -> Iterator[dict[str, Any]]:
    """Yields the reports, the newest last."""
    paths = [entry.path for entry in os.scandir(directory) if entry.name.endswith(".json")]
    for path in sorted(paths, key=lambda path: (os.stat(path).st_mtime_ns, path)):
        with open(path, encoding="ascii") as file:
            yield json.load(file)


def _read_rank(data: Mapping[str, Any]) -> Rank:
    outcome = data["outcomes"][0] if data["outcomes"] else {"group": "", "reason": ""}
    return Rank(
        rank=data["rank"],
        world=data["world"],
        backend=data["backend"],
        group=outcome["group"],
        reason=outcome["reason"],
        report=data["report"],
        final=data["final"],
    )
