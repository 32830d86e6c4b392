"""Exchange of messages between ranks through a Store, even if two ranks have the same number."""

import datetime as dt
import json
import time
from typing import Any

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Variables that a launcher must set."""

_DIGITS, _HIGHEST_PORT = 9, 0xFFFF
_POLL = 0.05  # seconds
_BEFORE = "switchml-doctor"


def find_problem(environ: "dict[str, str]") -> str:
    """Return why the launcher's variables cannot be used; empty if they can."""
    for name in NEEDED:
        value = environ.get(name, "")
        if not value:
            return (
                f"{name} is not set; start it by torchrun, srun or mpirun, or on one machine by: "
                "switchml-patch doctor"
            )
        if name != "MASTER_ADDR" and not (value.isdigit() and len(value) <= _DIGITS):
            return f"{name} is {value[:20]!r}, not a number"
    rank, world, port = (int(environ[name]) for name in NEEDED if name != "MASTER_ADDR")
    if rank >= world:
        return f"RANK is {rank}, and WORLD_SIZE {world}; ranks are 0 to {world - 1}"
    return "" if 0 < port <= _HIGHEST_PORT else f"MASTER_PORT is {port}, not a port"


def open_store(environ: "dict[str, str]", patience: float, name: str) -> Any:
    """Open the Store that the launcher's variables name; rank 0 serves it if no agent does.

    An access takes at most `patience` seconds. `name` is a prefix of all keys.
    """
    import torch.distributed as dist

    agent = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    serves = environ["RANK"] == "0" and not agent and name == _BEFORE
    store = dist.TCPStore(
        environ["MASTER_ADDR"],
        int(environ["MASTER_PORT"]),
        1,  # so that no rank waits for missing ranks
        serves,
        dt.timedelta(seconds=patience),
    )
    attempt = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"{name}/{attempt}", store)


class Meeting:
    """Messages between ranks. Polls the Store, because torch 1.7 cannot limit a wait in it."""

    def __init__(self, environ: "dict[str, str]", patience: float) -> None:
        self.rank, self.world = int(environ["RANK"]), int(environ["WORLD_SIZE"])
        self._store = open_store(environ, patience, _BEFORE)
        self._seat = self._store.add(f"seats/{self.rank}", 1)

    @property
    def leads(self) -> bool:
        """True for the rank that collects the messages of all others."""
        return self.rank == 0 and self._seat == 1

    def tell(self, name: str, value: Any) -> None:
        """Send a value to the leader."""
        self.publish(f"{name}/{self.rank}/{self._seat}", value)

    def publish(self, name: str, value: Any) -> None:
        """Send a value to all ranks."""
        self._store.set(name, json.dumps(value))
        self._store.add(f"{name}/there", 1)

    def hear(self, name: str, patience: float) -> Any:
        """Wait for a value that the leader publishes; return None after `patience` seconds."""
        return self._read(name, time.monotonic() + patience)

    def gather(self, name: str, patience: float) -> "list[dict[str, Any]]":
        """Wait for the values of all ranks; return them in order, without missing values."""
        deadline = time.monotonic() + patience
        found = []
        for rank in range(self.world):
            first = self._read(f"{name}/{rank}/1", deadline)
            seats = self._store.add(f"seats/{rank}", 0)
            others = [self._read(f"{name}/{rank}/{seat}", deadline) for seat in range(2, seats + 1)]
            found += [one for one in (first, *others) if one is not None]
        return found

    def _read(self, key: str, deadline: float) -> Any:
        while not self._store.add(f"{key}/there", 0):
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL)
        return json.loads(self._store.get(key).decode())
