"""Start of ranks by `switchml-patch run`, compared with torchrun.

Prints the median of 9 runs of both, as whole processes, and their ratio. A first run builds the
plugin.
"""

from __future__ import annotations

import os

from pairs import SCRIPT, compare, measure_wall, show

from patchgen.system.ports import free_port

PYTHON = os.environ.get("SWITCHML_TEST_PYTHON", "/usr/bin/python3")
# Instead of torchrun's own main program, which in torch 1.13 fails under Python 3.11.
TORCHRUN = """
import sys
from torch.distributed.elastic.multiprocessing import Std
from torch.distributed.launcher.api import elastic_launch
from torch.distributed.run import config_from_args, parse_args
config, command, arguments = config_from_args(parse_args(sys.argv[1:]))
config.redirects = config.tee = Std.NONE
elastic_launch(config, command)(*arguments)
"""


def torchrun() -> list[str]:
    options = ["--nproc_per_node", "2", "--master_port", str(free_port()), "--no_python"]
    return [PYTHON, "-c", TORCHRUN, *options]


def main() -> None:
    ranks = [PYTHON, "-c", "pass"]
    run = [SCRIPT, "run", "--", *ranks]
    measure_wall(run)
    found = compare(lambda: measure_wall(run), lambda: measure_wall([*torchrun(), *ranks]), 9)
    show("run", found, "torchrun", limit=1.4)


if __name__ == "__main__":
    main()
