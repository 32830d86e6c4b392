"""Make code of torch that tests for the backend Gloo treat "switchml" as Gloo.

This concerns monitored_barrier, an all-to-all that Gloo lacks, and hooks that may hang with Gloo.
Only the log of DistributedDataParallel must not take a group of the plugin for one of Gloo.
"""

import functools
import sys

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

_CALLERS = (
    "torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook.",
    "torch.distributed.distributed_c10d.monitored_barrier",
    "torch.distributed.nn.functional.",
)


def install():
    """Replace get_backend, also for modules that are imported later, and guard the log."""
    original = dist.get_backend

    @functools.wraps(original)
    def get_backend(*args, **named):
        backend, frame = original(*args, **named), sys._getframe(1)
        caller = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"
        expects_gloo = "switchml" in str(backend) and caller.startswith(_CALLERS)
        return dist.Backend.GLOO if expects_gloo else backend

    dist.get_backend = dist.distributed_c10d.get_backend = get_backend
    if hasattr(dist.ProcessGroup, "_set_default_backend"):
        ddp = DistributedDataParallel
        ddp._ddp_init_helper = _without_gloo_type(ddp._ddp_init_helper)


def _without_gloo_type(initialize):
    """Wrap the method in which DistributedDataParallel makes its log.

    If the default backend has the type of Gloo, the log reads the number of threads from memory
    where Gloo's C++ class has it. The classes of the plugin have other values there.
    """

    @functools.wraps(initialize)
    def wrapped(self, *args, **named):
        group, types = self.process_group, dist.ProcessGroup.BackendType
        backends = [group._get_backend(device) for device in group._device_types]
        ours = any(type(one).__module__.startswith("torch_switchml") for one in backends)
        if not ours or group.name() != "gloo":
            return initialize(self, *args, **named)
        group._set_default_backend(types.CUSTOM)
        try:
            return initialize(self, *args, **named)
        finally:
            group._set_default_backend(types.GLOO)

    return wrapped
