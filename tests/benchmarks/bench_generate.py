"""Cost of `switchml-patch generate`, compared with the import of its libraries.

Prints the CPU time of both as whole processes, in the pair of N with the median ratio.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from pairs import measure_cpu, measure_median, refuse_above


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--limit", type=float, default=1.5, help="fail above this ratio")
    arguments = parser.parse_args()
    script = os.path.join(os.path.dirname(sys.executable), "switchml-patch")
    generate = [script, "generate", "--dpdk", "--mlx5"]
    floor = [sys.executable, "-c", "import click, jinja2"]
    with tempfile.TemporaryDirectory() as directory:
        ours, least = measure_median(
            lambda: measure_cpu(generate, directory),
            lambda: measure_cpu(floor, directory),
            arguments.runs,
        )
    print(
        f"generate {ours * 1e3:.1f} ms, import floor {least * 1e3:.1f} ms, ratio {ours / least:.2f}"
    )
    refuse_above(arguments.limit, ours, least)


if __name__ == "__main__":
    main()
