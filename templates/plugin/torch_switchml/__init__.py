"""Backend "switchml" of torch.distributed: Gloo, whose allreduce goes through SwitchML.

Example:
    import torch.distributed, torch_switchml

    torch.distributed.init_process_group("switchml")
"""

import atexit
import os
import sys
import warnings

import torch
import torch_switchml_backend
import torch_switchml_launch

from torch_switchml._built import HAS_SEQUENCE, TORCH

_INSTALLED = (torch.__version__, torch.version.git_version, torch.version.cuda)
if _INSTALLED != TORCH:
    _VERSION = "torch %s (commit %s, CUDA %s)"
    raise ImportError(
        f"torch_switchml was built for {_VERSION % TORCH}, and this is {_VERSION % _INSTALLED}; "
        f"build it again with: switchml-patch plugin build --torch {sys.executable}"
    )

from torch._C._distributed_c10d import ProcessGroupGloo

from torch_switchml import _C, _gloo_compatibility, _patch  # could crash with another torch
from torch_switchml._hierarchical import HierarchicalState, hierarchical_hook
from torch_switchml._quantized import QuantizedState, quantized_hook

__all__ = [
    "HierarchicalState",
    "QuantizedState",
    "hierarchical_hook",
    "is_patched",
    "quantized_hook",
    "report",
]

_PATCHED = _patch.is_patched()


def is_patched():
    """Return True: the backend "switchml" can delegate to SwitchML."""
    return True


def report():
    """Return the state of this process as a dict: see torch.distributed.switchml."""
    return _patch.report() if _PATCHED else _patch.complete(_C.report())


report.__doc__ = _patch.report.__doc__


def _default_devices():
    """Return the network devices that torch itself chooses for Gloo."""
    names = os.environ.get("GLOO_SOCKET_IFNAME")
    if names:
        return [ProcessGroupGloo.create_device(interface=name) for name in names.split(",")]
    return [ProcessGroupGloo.create_default_device()]


def _complete_options(given, timeout):
    """Return the options of a process group of Gloo, with torch's defaults."""
    own = ProcessGroupGloo._Options()
    own._timeout = timeout if given._timeout == own._timeout else given._timeout
    own._devices = given._devices or _default_devices()
    own._threads = given._threads
    return own


def _make_gloo(options, given):
    """Make the process group that torch itself makes for the backend "gloo"."""
    membership = (options.store, options.group_rank, options.group_size)
    reconfigured = getattr(options, "enable_reconfigure", False)
    # With several backends, the options may be those of another backend.
    if isinstance(given, ProcessGroupGloo._Options):
        own = _complete_options(given, options.timeout)
        if reconfigured:
            own.enable_reconfigure = True
        gloo = ProcessGroupGloo(*membership, own)
    else:
        more = {"enable_reconfigure": True} if reconfigured else {}
        gloo = ProcessGroupGloo(*membership, timeout=options.timeout, **more)
    if hasattr(gloo.options, "global_ranks_in_group"):
        gloo.options.global_ranks_in_group = options.global_ranks_in_group
        gloo.options.group_name = options.group_id
    if HAS_SEQUENCE:
        gloo._set_sequence_number_for_group()
    return gloo


def _create(options, gloo_options):
    """Make a process group for init_process_group("switchml"). Called by torch."""
    return _wrap(_make_gloo(options, gloo_options), options.store, "switchml")


def _wrap(gloo, store, name):
    """Wrap a process group of Gloo, which was made with this store, as the named backend."""
    if _PATCHED:
        return gloo
    milliseconds = round(gloo.options._timeout.total_seconds() * 1000)
    has_ranks = not getattr(gloo.options, "enable_reconfigure", False)
    return _C.group(store, gloo, milliseconds, has_ranks, name)


torch_switchml_launch.activate()
torch_switchml_backend.register()
if _PATCHED:
    warnings.warn(
        "the Gloo of this torch delegates to SwitchML itself, because it is patched or a graft "
        'is loaded: the backends "switchml" and "gloo" are the same',
        stacklevel=2,
    )
else:
    _gloo_compatibility.install()
    # Callbacks in Python that wait for a sum must run before Python ends.
    atexit.register(_C.finish)
