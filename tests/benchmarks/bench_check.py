"""Cost of `switchml-patch check --dpdk`, compared with a call of pkg-config for gRPC.

Prints the least CPU seconds over N alternating runs of both, with all their subprocesses, and their
ratio. pkg-config takes a second for Debian's gRPC, and check calls it once.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from pairs import measure_best, measure_cpu, refuse_above

QUESTION = ["pkg-config", "--cflags", "--libs", "--static", "grpc++"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--python", default="/usr/bin/python3", help="interpreter to build with")
    parser.add_argument("--limit", type=float, default=3, help="fail above this ratio")
    arguments = parser.parse_args()
    script = os.path.join(os.path.dirname(sys.executable), "switchml-patch")
    check = [script, "check", "--dpdk", "--python", arguments.python]
    with tempfile.TemporaryDirectory() as directory:
        best, least = measure_best(
            lambda: measure_cpu(check, directory, check=False),
            lambda: measure_cpu(QUESTION, directory, check=False),
            arguments.runs,
        )
    print(f"check --dpdk {best:.2f} s of CPU, pkg-config {least:.2f} s, ratio {best / least:.2f}")
    refuse_above(arguments.limit, best, least)


if __name__ == "__main__":
    main()
