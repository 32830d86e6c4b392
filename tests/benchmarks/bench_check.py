"""Cost of `switchml-patch check --dpdk`, compared with a call of pkg-config for gRPC.

Prints the least CPU seconds over 3 alternating runs of both, with all their subprocesses, and their
ratio. pkg-config takes a second for Debian's gRPC, and check calls it once.
"""

from __future__ import annotations

from pairs import SCRIPT, measure_best, measure_cpu, show

CHECK = [SCRIPT, "check", "--dpdk", "--python", "/usr/bin/python3"]
QUESTION = ["pkg-config", "--cflags", "--libs", "--static", "grpc++"]


def main() -> None:
    best, least = measure_best(
        lambda: measure_cpu(CHECK, check=False), lambda: measure_cpu(QUESTION, check=False), 3
    )
    show("check --dpdk, CPU", best, "pkg-config", least, limit=3)


if __name__ == "__main__":
    main()
