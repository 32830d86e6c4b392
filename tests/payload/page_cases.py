"""A block of Python of a page, run as a script."""

import sys

import torch.distributed as dist


def block(switchml, source):
    """Run the block; the report module is where a graft puts it."""
    sys.modules["torch.distributed.switchml"] = switchml
    exec(compile(source, "page", "exec"), {"__name__": "__main__"})  # noqa: S102  # ours
    if dist.is_initialized():
        dist.destroy_process_group()
    return switchml.report()
