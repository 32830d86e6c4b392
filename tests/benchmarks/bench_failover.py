"""Time from the failure of a switch to the next finished allreduce, over Gloo.

Run by `make bench`, with the simulator. Ranks notice a killed switch by its closed connections, and
a stopped switch after SWITCHML_TIMEOUT_MS.
"""

from __future__ import annotations

from pathlib import Path

from support.launcher import Launcher
from support.serving import serving
from support.torch import results

RANKS, TIMES, TIMEOUT = 2, 3, 2.0


def test_failover(launch: Launcher, tmp_path: Path) -> None:
    for name in ("KILL", "STOP"):
        found = [measure(launch, tmp_path / f"{name}-{time}", name) for time in range(TIMES)]
        print(
            f"\nfrom SIG{name} of the switch to the next allreduce: at most {max(found):.2f} s, "
            f"with a limit of {TIMEOUT} s for an allreduce"
        )


def measure(launch: Launcher, place: Path, name: str) -> float:
    place.mkdir()
    with serving(place / "cache", place / "counters", RANKS) as switch:
        command = ["kill", f"-{name}", str(switch.aggregator)]
        arguments = {"victim": 1, "command": command, "goes_on": True}
        env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": str(int(1000 * TIMEOUT))}
        ranks = launch("breaks", RANKS, arguments=arguments, config=switch.config, env=env)
    return max(float(result["elapsed"]) for result in results(ranks))
