"""Cost of `switchml-patch generate`, compared with the import of its libraries.

Prints the CPU time of both as whole processes, in the pair of 30 with the median ratio.
"""

from __future__ import annotations

import sys

from pairs import SCRIPT, measure_cpu, measure_median, show

GENERATE = [SCRIPT, "generate", "--dpdk", "--mlx5"]
FLOOR = [sys.executable, "-c", "import click, jinja2"]


def main() -> None:
    ours, least = measure_median(lambda: measure_cpu(GENERATE), lambda: measure_cpu(FLOOR), 30)
    show("generate", ours, "import floor", least, limit=1.5)


if __name__ == "__main__":
    main()
