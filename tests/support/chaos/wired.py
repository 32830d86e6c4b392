"""The software switch at the wires of some hosts, and SwitchML's own controller before it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from support import sml_controller
from support.wired import CONTROLLER, PORT, Network

_JOINS, _SESSIONS = 50099, 50100
"""Ports of SwitchML's controller, and of the switch's own, which lets it add a worker."""
_AGAIN = 20  # milliseconds until a packet is sent again
_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_LOST, _VOID = "lost", "void"
"""Wire to nowhere: its two ends."""
_ALL = 0xFFFFFFFF


class Wired:
    """Two processes that an event can hit: the switch, and SwitchML's controller before it."""

    def __init__(self, network: Network, switch: str, controller: Path, log: Path) -> None:
        """Prepare the interface that drops lost frames; those of the switch are one interface."""
        network.port = str(_JOINS)
        self._network = network
        ports = [f"--port=packet:{name}" for name in network.interfaces]
        sessions = f"{CONTROLLER}:{_SESSIONS}"
        self._switch = _Service(network, log, [switch, f"--listen={sessions}", *ports])
        joins = f"{CONTROLLER}:{_JOINS}"
        command = sml_controller.command(controller, joins, sessions)
        self._controller = _Service(network, log, command)
        network.hub.ip("link", "add", "name", _LOST, "type", "veth", "peer", "name", _VOID)
        network.hub.set_up(_LOST)
        network.hub.set_up(_VOID)

    @property
    def config(self) -> Mapping[str, object]:
        """Values of the ranks' switchml.cfg."""
        return {"timeout": _AGAIN}

    @property
    def env(self) -> Mapping[str, str]:
        """Variables of the ranks: the client library writes no files."""
        return {"GLOG_logtostderr": "1"}

    @property
    def networks(self) -> Sequence[int]:
        """Processes in the network namespaces of the switch and the hosts."""
        return [site.pid for site in (self._network.hub, *self._network.hosts)]

    @property
    def processes(self) -> Mapping[str, int]:
        """Numbers of the processes that run."""
        return {"switch": self._switch.number, "controller": self._controller.number}

    def start(self) -> None:
        """Start the programs that do not run again, at the same addresses."""
        self._switch.start()
        self._controller.start()

    def kill(self) -> None:
        self._switch.end(signal.SIGKILL)

    def kill_controller(self) -> None:
        self._controller.end(signal.SIGKILL)

    @contextlib.contextmanager
    def losing(self, share: float) -> Iterator[None]:
        """Drop a share of frames on each wire, in both directions, while the block lasts.

        The kernel chooses them: netem, which others use for this, is not in each kernel.
        """
        # Loads a random number; from the share on the frame passes, else it is redirected.
        limit = int(share * _ALL)
        program = f"4,32 0 0 4294963256,53 0 1 {limit},6 0 0 0,6 0 0 {_ALL}"
        ends = [f"{PORT}{number}" for number in range(len(self._network.hosts))]
        try:
            for end in ends:
                self._tc("qdisc", "add", "dev", end, "clsact")
                for way in ("ingress", "egress"):
                    match = ["protocol", "all", "bpf", "bytecode", program]
                    nowhere = ["action", "mirred", "egress", "redirect", "dev", _LOST]
                    self._tc("filter", "add", "dev", end, way, *match, *nowhere)
            yield
        finally:
            for end in ends:
                self._tc("qdisc", "del", "dev", end, "clsact")

    def _tc(self, *words: str) -> None:
        subprocess.run([*self._network.hub.enter, "tc", *words], check=True)

    def close(self) -> None:
        """End both programs as an operator does."""
        self._controller.end(signal.SIGTERM)
        self._switch.end(signal.SIGTERM)


class _Service:
    """Process at the site of the switch, which writes a line when it is ready."""

    def __init__(self, network: Network, log: Path, command: list[str]) -> None:
        self._command = [*network.hub.enter, *_ENDS_WITH_US, *command]
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    @property
    def number(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the program unless it runs."""
        if self._process is None:
            with self._log.open("a") as log:
                self._process = subprocess.Popen(
                    self._command, stdout=subprocess.PIPE, stderr=log, text=True
                )
            assert self._process.stdout is not None
            assert self._process.stdout.readline(), f"{self._command}: see {self._log}"

    def end(self, number: signal.Signals) -> None:
        """Send the running program, which may be stopped, a signal; wait for its end."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.send_signal(signal.SIGCONT)
            self._process.communicate()
            self._process = None
