"""Functions of torch that test whether a backend is Gloo see Gloo for "switchml".

These are monitored_barrier, an all-to-all that Gloo lacks, and hooks that may hang with Gloo.
"""

import functools
import sys

import torch.distributed as dist

_ASKING = (
    "torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook.",
    "torch.distributed.distributed_c10d.monitored_barrier",
    "torch.distributed.nn.functional.",
)


def install():
    """Replace get_backend, also for modules that are imported later."""
    original = dist.get_backend

    @functools.wraps(original)
    def get_backend(*args, **named):
        backend, caller = original(*args, **named), sys._getframe(1)
        asking = f"{caller.f_globals.get('__name__')}.{caller.f_code.co_name}"
        asks = "switchml" in str(backend) and asking.startswith(_ASKING)
        return dist.Backend.GLOO if asks else backend

    dist.get_backend = dist.distributed_c10d.get_backend = get_backend
