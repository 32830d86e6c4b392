"""Cost of `switchml-patch generate`, against the floor that its libraries set.

Prints the best of N alternating runs of both, each as a whole process, and their ratio.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time


def seconds(command: list[str], cwd: str) -> float:
    """The wall time of one run."""
    start = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--limit", type=float, default=1.5, help="fail above this ratio")
    arguments = parser.parse_args()
    script = os.path.join(os.path.dirname(sys.executable), "switchml-patch")
    generate = [script, "generate", "--dpdk", "--mlx5"]
    floor = [sys.executable, "-c", "import click, jinja2"]
    with tempfile.TemporaryDirectory() as directory:
        pairs = [
            (seconds(generate, directory), seconds(floor, directory)) for _ in range(arguments.runs)
        ]
    best, least = (min(times) for times in zip(*pairs))
    print(
        f"generate {best * 1e3:.1f} ms, import floor {least * 1e3:.1f} ms, ratio {best / least:.2f}"
    )
    if best > arguments.limit * least:
        sys.exit(f"the ratio is above {arguments.limit}")


if __name__ == "__main__":
    main()
