"""A block of Python of a page, as a script of its own."""

import os
import sys

import torch.distributed as dist


def block(switchml, source):
    """The configurations of the page are those of the test. The module is where a graft puts it."""
    sys.modules["torch.distributed.switchml"] = switchml
    configurations = os.path.dirname(os.getcwd())
    source = source.replace("/tmp/switchml/ranks", configurations)  # noqa: S108  # the page's
    exec(compile(source, "page", "exec"), {"__name__": "__main__"})  # noqa: S102  # ours
    if dist.is_initialized():
        dist.destroy_process_group()
    return switchml.report()
