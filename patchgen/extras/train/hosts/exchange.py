"""Exchange of the hosts of a job: rounds in which each host gets what all have said.

The first host serves, in a thread of its command. Each host, the first as well, has one connection
to it for as long as the job lasts. So a host whose command ends, however, is missed at once, and
one that is cut off after half a minute. Messages are lines of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import queue
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchgen.errors import OptionsError, ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.extras.train.hosts.rendezvous import Rendezvous

_LOGGER = logging.getLogger(__name__)
_PROTOCOL = "switchml-patch-hosts-1"
_GONE = "is gone: its command was killed, or cannot be reached"
_LONGEST = 1 << 26  # bytes of a message
_GREETING = 10.0  # seconds for the first answer of the first host
_AGAIN = 0.2  # seconds between two tries to reach it
_FAREWELL = 5.0  # seconds for the last messages
# Seconds of silence after which the kernel asks, between two questions, and how many it asks.
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
_UNANSWERED = 30_000  # milliseconds


class HostLost(ToolError):  # noqa: N818  # that is what there is
    """Another host is missing, or has ended before the job."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
        """Exit code of the job."""


@dataclass
class _Peer:
    """Connection of a host, as the first one has it."""

    name: str
    node: int | None
    writer: asyncio.StreamWriter
    said: list[Any] = field(default_factory=list)
    """Words of rounds that are not complete."""

    def send(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self.writer.write(_encode(message))


class _Hub:
    """Server of the first host."""

    def __init__(self, listener: socket.socket, rendezvous: Rendezvous) -> None:
        self._listener = listener
        self._wanted = rendezvous
        self._peers: list[_Peer] = []
        self._stopped = self._over = False
        self._loop = asyncio.new_event_loop()
        self._closing = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server once all has been sent."""
        self._loop.call_soon_threadsafe(self._closing.set_result, None)
        self._thread.join(2 * _FAREWELL)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._attend, sock=self._listener, limit=_LONGEST)
        timer = self._loop.call_later(self._wanted.limit, self._miss)
        await self._closing
        timer.cancel()
        server.close()
        for peer in self._peers:
            peer.writer.close()
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            waits = [peer.writer.wait_closed() for peer in self._peers]
            await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), _FAREWELL)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _keep_alive(writer.get_extra_info("socket"))
        peer = None
        with contextlib.suppress(OSError, ValueError):
            peer = self._admit(_decode(await reader.readline()), writer)
            while peer is not None:
                self._take(peer, _decode(await reader.readline()))
        if peer is None:
            writer.close()
        else:
            self._end(peer, _GONE, ToolError.exit_code)

    def _admit(self, hello: Mapping[str, Any], writer: asyncio.StreamWriter) -> _Peer | None:
        """Admits a host that belongs to the job; None where it does not."""
        if hello.get("protocol") != _PROTOCOL:
            return None
        peer = _Peer(str(hello["name"]), hello["node"], writer)
        if hello["job"] != self._wanted.job:
            peer.send({"refused": "the job there has another --rdzv-id"})
            return None
        if len(self._peers) == self._wanted.nodes or self._over:
            names = ", ".join(one.name for one in self._peers)
            peer.send(
                {"refused": f"the {self._wanted.nodes} hosts of the job there have come: {names}"}
            )
            return None
        self._peers.append(peer)
        peer.send({"welcome": self._wanted.name})
        return peer

    def _take(self, peer: _Peer, message: Mapping[str, Any]) -> None:
        if "leave" in message:
            self._end(peer, *message["leave"])
        elif "stop" in message and not self._stopped:
            self._stopped = True
            self._tell({"stop": self._peers.index(peer)})
        elif "say" in message:
            peer.said.append(message["say"])
            if len(self._peers) == self._wanted.nodes and all(one.said for one in self._peers):
                heard = [one.said.pop(0) for one in self._peers]
                self._over = self._over or bool(message["last"])
                for number, one in enumerate(self._peers):
                    one.send({"heard": heard, "own": number})

    def _miss(self) -> None:
        """Ends the job where not all hosts have come."""
        wanted, came = self._wanted.nodes, len(self._peers)
        if came < wanted:
            numbers = {peer.node for peer in self._peers}
            missing = [str(node) for node in range(wanted) if node not in numbers]
            which = f" (--node-rank {', '.join(missing)})" if None not in numbers else ""
            there = ", ".join(peer.name for peer in self._peers)
            self._end(
                f"{wanted - came} of {wanted} hosts{which}",
                f"did not come within {self._wanted.limit} s; there: {there}",
                ToolError.exit_code,
            )  # fmt: skip

    def _end(self, who: _Peer | str, why: str, code: int) -> None:
        """Tells all hosts why the job ends, once; after its last round there is no reason to."""
        if not self._over:
            self._over = True
            place = None
            if isinstance(who, _Peer):
                place, who = self._peers.index(who), f"host {who.name}"
            self._tell({"lost": [place, who, why, code]})
            for peer in self._peers:
                peer.writer.close()

    def _tell(self, message: Mapping[str, Any]) -> None:
        for peer in self._peers:
            peer.send(message)


class Exchange:
    """Connection of this host to the first one."""

    def __init__(self, connection: socket.socket, first: str) -> None:
        self.over = threading.Event()
        """Event that is set once the ranks of all hosts are to end."""
        self.stopped: int | None = None
        """Host whose ranks failed first, by its place in the rounds."""
        self.first = first
        """Name of the first host."""
        self.names: Mapping[int, str] = {}
        """Names of the hosts by their places in the rounds, once they have met."""
        self._connection = connection
        self._heard: queue.SimpleQueue[tuple[list[Any], int] | None] = queue.SimpleQueue()
        # Place (-1: unknown), name, reason and exit code of a host that has ended.
        self._lost: tuple[int, str, str, int] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def addresses(self) -> tuple[str, str]:
        """Addresses of this host and of the first one, as they know each other."""
        return self._connection.getsockname()[0], self._connection.getpeername()[0]

    def share(self, data: object, *, last: bool = False) -> tuple[list[Any], int]:
        """Tells all hosts something, and waits for what they tell.

        Returns:
            What each host has told, in the same order on all of them, and this one's place there.

        Raises:
            HostLost: one of them has ended.
        """
        self._send({"say": data, "last": last})
        heard = self._heard.get()
        if heard is None:
            first = f"host {self.first}"
            place, who, why, code = self._lost or (-1, first, _GONE, ToolError.exit_code)
            known = f"host {self.names[place]}" if place in self.names else who
            raise HostLost(f"{known} {why}", code)
        return heard

    def stop(self) -> None:
        """Asks all hosts to end their ranks."""
        self._send({"stop": True})

    def leave(self, why: str, code: int) -> None:
        """Tells the others why this host ends before the job."""
        self._send({"leave": [why, code]})
        self._reader.join(_FAREWELL)

    def close(self) -> None:
        """Closes the connection."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the reader sees the end of the connection as well
            self._connection.sendall(_encode(message))

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._connection.makefile("rb") as lines:
            for line in lines:
                message = _decode(line)
                if "heard" in message:
                    self._heard.put((message["heard"], message["own"]))
                elif "stop" in message:
                    self.stopped = message["stop"]
                    self.over.set()
                elif "lost" in message:
                    place, who, why, code = message["lost"]
                    self._lost = -1 if place is None else place, who, why, code
        self.over.set()
        self._heard.put(None)


@contextlib.contextmanager
def connected(rendezvous: Rendezvous) -> Iterator[tuple[Exchange, bool]]:
    """Connects this host with the first one while the block lasts.

    Yields:
        The connection, and whether this is the first host.

    Raises:
        OptionsError: there is another job, or the endpoint is not of the host that serves.
        ToolError: the first host does not answer in time.
    """
    with contextlib.ExitStack() as stack:
        listener = _listen(rendezvous)
        if listener is not None:
            stack.callback(_Hub(listener, rendezvous).close)
        connection, first = _connect(rendezvous)
        exchange = Exchange(connection, first)
        stack.callback(exchange.close)
        yield exchange, listener is not None


def _listen(rendezvous: Rendezvous) -> socket.socket | None:
    """Socket of the first host; None on the others."""
    if rendezvous.node:
        return None
    (host, port), own = rendezvous.endpoint, rendezvous.node == 0
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind((address[0], 0))  # fails where this host does not have the address
        # A host may know itself by another address than the others know it by.
        place = address[0] if address[0] in {"127.0.0.1", "::1"} else ""
        return socket.create_server((place, port), family=family, backlog=rendezvous.nodes)
    except OSError as error:
        if own:
            raise OptionsError(
                f"--rdzv-endpoint {host}:{port}: the first host cannot listen there: "
                f"{error.strerror}; name an address of it, and a free port"
            ) from error
        return None


def _connect(rendezvous: Rendezvous) -> tuple[socket.socket, str]:
    """Connects to the first host; returns the connection and that host's name."""
    host, port = rendezvous.endpoint
    deadline = time.monotonic() + rendezvous.limit
    _LOGGER.info("meeting %d hosts at %s:%d", rendezvous.nodes, host, port)
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=_GREETING)
            if connection.getsockname() != connection.getpeername():
                break
            connection.close()  # nobody listens: the kernel has connected it with itself
            why = "Connection refused"
        except OSError as error:
            why = error.strerror or str(error)
        if time.monotonic() >= deadline:
            raise ToolError(
                f"{host}:{port}: no answer of the first host within {rendezvous.limit} s: {why}\n"
                "start the command there as well, and check --rdzv-endpoint"
            )
        time.sleep(_AGAIN)
    _keep_alive(connection)
    hello = {"protocol": _PROTOCOL, "job": rendezvous.job, "name": rendezvous.name,
             "node": rendezvous.node}  # fmt: skip
    answer = _greet(connection, hello)
    if "welcome" not in answer:
        connection.close()
        why = answer.get("refused", "something else than this version of switchml-patch answers")
        raise OptionsError(f"--rdzv-endpoint {host}:{port}: {why}")
    connection.settimeout(None)
    return connection, str(answer["welcome"])


def _greet(connection: socket.socket, hello: Mapping[str, Any]) -> Mapping[str, Any]:
    """First answer to a connection; empty where nothing of ours answers."""
    line = b""
    with contextlib.suppress(OSError, ValueError):
        connection.sendall(_encode(hello))
        while not line.endswith(b"\n") and len(line) < _LONGEST:
            read = connection.recv(1)  # nothing of what follows it
            if not read:
                break
            line += read
        return _decode(line)
    return {}


def _keep_alive(connection: socket.socket) -> None:
    """Lets the kernel notice that the other side cannot be reached."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    values = {**_KEEPALIVE, "TCP_USER_TIMEOUT": _UNANSWERED}
    for name, value in values.items():
        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _encode(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode("ascii") + b"\n"


def _decode(line: bytes) -> Mapping[str, Any]:
    """Message of a line.

    Raises:
        ValueError: it is none, or the connection has ended.
    """
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("no message")  # noqa: TRY004  # as json does
    return message
