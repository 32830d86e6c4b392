"""Cost of `switchml-patch check --dpdk`, compared with a call of pkg-config for gRPC.

Prints the median CPU seconds of both with all their subprocesses, and their ratio. pkg-config takes
a second for Debian's gRPC, and check calls it once.
"""

from __future__ import annotations

from pairs import SCRIPT, compare, measure_cpu, show

CHECK = [SCRIPT, "check", "--dpdk", "--python", "/usr/bin/python3"]
QUESTION = ["pkg-config", "--cflags", "--libs", "--static", "grpc++"]


def main() -> None:
    found = compare(
        lambda: measure_cpu(CHECK, check=False), lambda: measure_cpu(QUESTION, check=False), 5
    )
    show("check --dpdk, CPU", found, "pkg-config", limit=3)


if __name__ == "__main__":
    main()
