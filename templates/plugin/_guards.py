"""Guards where torch asks whether a group's backend is Gloo: there "switchml" is.

monitored_barrier, an all-to-all that Gloo has not, and hooks that it refuses since they may hang.
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
    """Guards all of them, imported before or after."""
    original = dist.get_backend

    @functools.wraps(original)
    def get_backend(*args, **named):
        backend, caller = original(*args, **named), sys._getframe(1)
        asking = f"{caller.f_globals.get('__name__')}.{caller.f_code.co_name}"
        asks = "switchml" in str(backend) and asking.startswith(_ASKING)
        return dist.Backend.GLOO if asks else backend

    dist.get_backend = dist.distributed_c10d.get_backend = get_backend
