"""Run as the first process of namespaces of its own: what the links of `make bench-network` are."""

from __future__ import annotations

import json
import subprocess
import sys

from network import links

SEND = "import socket; socket.create_connection(('{to}', 7000)).sendall(bytes({bytes}))"
TAKE = """
import socket
server = socket.create_server(("", 7000))
print("ready", flush=True)
peer = server.accept()[0]
print(sum(iter(lambda: len(peer.recv(65536)), 0)))
"""
BYTES = 300_000


def carried(taking: list[str], sending: list[str], to: str) -> int:
    """Bytes that arrive of those that were sent."""
    with subprocess.Popen(
        [*taking, sys.executable, "-c", TAKE], stdout=subprocess.PIPE, text=True
    ) as taker:
        assert taker.stdout is not None
        taker.stdout.readline()
        send = SEND.format(to=to, bytes=BYTES)
        subprocess.run([*sending, sys.executable, "-c", send], check=True, timeout=60)
        return int(taker.communicate(timeout=60)[0])


def shaped(place: list[str]) -> list[str]:
    """Lists the rates that shape the interfaces there."""
    command = ["tc", "-json", "qdisc", "show"]
    told = subprocess.run([*place, *command], check=True, capture_output=True, text=True)
    return sorted(
        f"{one['dev']} {one['options']['rate']}"
        for one in json.loads(told.stdout)
        if one["kind"] == "tbf"
    )


def names() -> list[str]:
    told = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True)
    return told.stdout.split("\n")[:-1]


def main() -> None:
    links.own()
    found: dict[str, object] = {}
    with links.star(2, 100) as star:
        found["shaped"] = [shaped(place) for place in (star.hub, star.at(0), star.at(1))]
        found["to the hub"] = carried(star.hub, star.at(1), links.HUB)
        found["to a rank"] = carried(star.at(0), star.at(1), links.FIRST)
    found["left"] = names()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
