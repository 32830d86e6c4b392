"""Switches that can be killed, stopped and cut off."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.chaos.relay import Relay
from support.serving import Served, behind, serving
from support.waiting import has_ended


class Simulated:
    """`simulator serve` behind a relay: the command watches over the process that adds."""

    def __init__(self, cache: Path, counters: Path, workers: int) -> None:
        self._relay = Relay()
        self._given = cache, counters, workers
        self._stack = contextlib.ExitStack()
        self._served: Served | None = None

    @property
    def config(self) -> Mapping[str, object]:
        """Values of the ranks' switchml.cfg."""
        return {"prepostprocessor": "cpu_exponent_quantizer", **behind(self._relay.port)}

    @property
    def env(self) -> Mapping[str, str]:
        return {}

    @property
    def networks(self) -> Sequence[int]:
        return ()

    @property
    def processes(self) -> Mapping[str, int]:
        """Number of the aggregator process, which runs."""
        assert self._served is not None
        return {"switch": self._served.aggregator}

    def start(self) -> None:
        """Start the switch again behind the same relay, unless it runs."""
        if self._served is None:
            self._served = self._stack.enter_context(serving(*self._given))
            self._relay.target = int(self._served.address.rpartition(":")[2])

    def kill(self) -> None:
        """Kill the aggregator process; the command must end as well."""
        if self._served is not None:
            os.kill(self._served.aggregator, signal.SIGKILL)
            self._end()

    def kill_controller(self) -> None:
        """Kill the command; the aggregator process must end as well."""
        if self._served is not None:
            aggregator = self._served.aggregator
            self._served.process.kill()
            has_ended(aggregator)
            self._end()

    def _end(self) -> None:
        assert self._served is not None
        self._served.process.wait()
        self._served = None
        self._stack.close()

    def losing(self, share: float) -> contextlib.AbstractContextManager[None]:
        """Drop a share of the ranks' traffic while the block lasts."""
        return self._relay.losing(share)

    def close(self) -> None:
        """End the switch as an operator does."""
        if self._served is not None:
            self._served.process.send_signal(signal.SIGTERM)
            self._end()
        self._relay.close()
