"""Datagrams between two hosts: one host sends them back, the other one counts those that return.

datagrams.py return ADDRESS PORT
datagrams.py count ADDRESS PORT NUMBER PATIENCE

The first prints `ready`, and runs until it is ended. The second sends so many datagrams, one after
another, waits for each at most so many seconds, and prints how many have returned.
"""

import contextlib
import socket
import sys


def send_back(endpoint, address):
    endpoint.bind(address)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        endpoint.sendto(*endpoint.recvfrom(100))


def count(endpoint, address, number, patience):
    endpoint.settimeout(patience)
    returned = 0
    for _ in range(number):
        endpoint.sendto(b"?", address)
        with contextlib.suppress(TimeoutError):
            endpoint.recv(100)
            returned += 1
    sys.stdout.write(f"{returned}\n")


def main(what, host, port, *given):
    address = host, int(port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        if what == "return":
            send_back(endpoint, address)
        else:
            count(endpoint, address, int(given[0]), float(given[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
