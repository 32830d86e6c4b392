"""Cost of `switchml-patch generate`, against the floor that its libraries set.

Prints the best of N alternating runs of both, each as a whole process, and their ratio.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from pairs import measure_best, measure_wall, refuse_above


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--limit", type=float, default=1.5, help="fail above this ratio")
    arguments = parser.parse_args()
    script = os.path.join(os.path.dirname(sys.executable), "switchml-patch")
    generate = [script, "generate", "--dpdk", "--mlx5"]
    floor = [sys.executable, "-c", "import click, jinja2"]
    with tempfile.TemporaryDirectory() as directory:
        best, least = measure_best(
            lambda: measure_wall(generate, directory),
            lambda: measure_wall(floor, directory),
            arguments.runs,
        )
    print(
        f"generate {best * 1e3:.1f} ms, import floor {least * 1e3:.1f} ms, ratio {best / least:.2f}"
    )
    refuse_above(arguments.limit, best, least)


if __name__ == "__main__":
    main()
