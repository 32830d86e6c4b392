"""Two hosts of two ranks each, and their network: namespaces with a cable between them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from support.torch import results
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from support.launcher import Rank

# One file for all, in which the leaders fill in their rank in their group, and its size.
ONE_FILE: Mapping[int, Mapping[str, object]] = {
    rank: {"rank": "auto", "num_workers": "auto"} for rank in range(4)
}
STEPS = 4  # of the trainings in payload/hierarchies.py
INTERFACE = "cable"
ADDRESS = "10.83.79.1"  # of the first host
SECOND = "10.83.79.2"


def check_training(ranks: Sequence[Rank], leaders: Collection[int] = (0, 2)) -> None:
    """The leaders have sent each gradient once through SwitchML, the others nothing."""
    for number, result in enumerate(results([*ranks])):
        assert result["leader"] == (number in leaders)
        counted = result["counted"]
        if result["leader"]:
            assert counted["bytes"] == result["gradients"]
            assert counted["calls"] > STEPS, "several buckets a step"
        else:
            assert counted == {"calls": 0, "bytes": 0}


@contextlib.contextmanager
def hosts() -> Iterator[tuple[str, str]]:
    """The directories in /proc with the namespaces of the first host, and of the second.

    The namespaces are those of two processes, so nothing is left of them at the end.
    """
    user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    with contextlib.ExitStack() as stack:
        first = _process(stack, [] if os.geteuid() == 0 else ["unshare", "--map-root-user"])
        ways = [["nsenter", *user, "--net", "--target", str(first)]]
        second = _process(stack, ways[0])
        ways.append([*ways[0][:-1], str(second)])
        cable = ["link", "add", INTERFACE, "type", "veth", "peer", "name", INTERFACE]
        _ip(ways[0], *cable, "netns", str(second))
        for way, address in zip(ways, (ADDRESS, SECOND)):
            _ip(way, "address", "add", f"{address}/24", "dev", INTERFACE)
            for name in ("lo", INTERFACE):
                _ip(way, "link", "set", name, "up")
        yield f"/proc/{first}/ns", f"/proc/{second}/ns"


def _process(stack: contextlib.ExitStack, way: Sequence[str]) -> int:
    """A process in a network namespace of its own; it ends with this one at the latest."""
    process = stack.enter_context(
        subprocess.Popen([*way, "unshare", "--net", "cat"], stdin=subprocess.PIPE)
    )
    until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "cat\n", process)
    return process.pid


def _ip(way: Sequence[str], *words: str) -> None:
    subprocess.run([*way, "ip", *words], check=True)
