"""Load a graft as a program would, and sum in a process group of one rank.

The interpreter reads this program from stdin. Its argument is the path of a new FileStore, in the
directory that has the package of the hook. Runs under Python 3.6 and newer, and imports nothing of
this package.
"""

import importlib
import json
import os
import sys

HOOK = "switchml_graft"
MARK = "switchml-trial: "


def main() -> None:
    """Print the group's state and its sum."""
    # Replace an installed hook, which may be of another version.
    sys.modules.pop(HOOK, None)
    sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__ != HOOK]
    sys.path.insert(0, os.path.dirname(sys.argv[1]))
    importlib.import_module(HOOK).activate()
    import torch
    import torch.distributed as dist
    from torch.distributed import switchml

    del os.environ["SWITCHML_REQUIRE"]
    dist.init_process_group("gloo", store=dist.FileStore(sys.argv[1], 1), rank=0, world_size=1)
    value = torch.ones(3)
    dist.all_reduce(value)
    report = switchml.report()
    answer = [report["problem"], report["group"], value.tolist()]
    sys.stdout.write("\n" + MARK + json.dumps(answer) + "\n")
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
