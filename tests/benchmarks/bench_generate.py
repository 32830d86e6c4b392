"""Cost of `switchml-patch generate`, compared with the import of its libraries.

Prints the median CPU time of both as whole processes, and their ratio.
"""

from __future__ import annotations

import sys

from pairs import SCRIPT, compare, measure_cpu, show

GENERATE = [SCRIPT, "generate", "--dpdk", "--mlx5"]
FLOOR = [sys.executable, "-c", "import click, jinja2"]


def main() -> None:
    found = compare(lambda: measure_cpu(GENERATE), lambda: measure_cpu(FLOOR), 30)
    show("generate", found, "import floor", limit=1.5)


if __name__ == "__main__":
    main()
