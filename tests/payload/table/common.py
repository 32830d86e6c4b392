"""Common parts of the cells."""

import datetime as dt
import os

import torch
import torch.distributed as dist

BACKEND = os.environ.get("SWITCHML_TEST_BACKEND", "gloo")  # the plugin has a name of its own
TIMEOUT = dt.timedelta(seconds=float(os.environ.get("SWITCHML_TEST_TIMEOUT", "60")))

CELLS = {}
KEPT = []
SETTING = {"directory": "", "ports": (), "starts": 0}  # of this run


def cell(function):
    CELLS[function.__name__] = function
    return function


def plain(value):
    """Return a value as JSON, with the type and the shape of tensors."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.is_sparse:
            value = value.to_dense()
        numbers = torch.view_as_real(value) if value.is_complex() else value
        return [str(value.dtype), list(value.shape), numbers.tolist()]
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return "gloo" if value == BACKEND else value


def rank():
    return dist.get_rank()


def world():
    return dist.get_world_size()


def own_tensor(dtype="float32", numel=3, of=None):
    """Return a tensor of small integers, whose sums and products are exact in every type and order.

    It is kept, because torch up to 2.6 may destroy a group while it holds the GIL, and then wait
    for a thread of Gloo that needs the GIL to free the last tensor.
    """
    base = torch.arange(1, numel + 1) % 3 + (rank() if of is None else of)
    KEPT.append(base.to(getattr(torch, dtype)))
    return KEPT[-1]


def everyones(make=torch.zeros_like):
    return [make(own_tensor()) for _ in range(world())]


def following():
    return (rank() + 1) % world()


def previous():
    return (rank() - 1) % world()


def default_group():
    return dist.distributed_c10d._get_default_group()


def begin(**how):
    dist.init_process_group(BACKEND, timeout=TIMEOUT, **how)
