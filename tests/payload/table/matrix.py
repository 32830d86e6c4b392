"""Every function with every type, and every operation."""

from functools import partial

import torch
import torch.distributed as dist

from table.common import CELLS, following, own_tensor, previous, rank, world

OPS = ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG")
DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "complex64"),
    *("uint8", "int8", "int16", "int32", "int64", "bool"),
)


def all_reduced(op, dtype):
    tensor = own_tensor(dtype)
    dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op))
    return tensor


def reduced(op, dtype):
    answers = []
    for dst in range(world()):
        tensor = own_tensor(dtype)
        dist.reduce(tensor, dst=dst, op=getattr(dist.ReduceOp, op))
        answers.append(tensor if rank() == dst else None)
    return answers


def broadcasted(dtype):
    tensors = [own_tensor(dtype) for _ in range(world())]
    for src, tensor in enumerate(tensors):
        dist.broadcast(tensor, src=src)
    return tensors


def all_gathered(dtype):
    tensors = [torch.zeros_like(own_tensor(dtype)) for _ in range(world())]
    dist.all_gather(tensors, own_tensor(dtype))
    return tensors


def gathered(dtype):
    tensors = [torch.zeros_like(own_tensor(dtype)) for _ in range(world())]
    dist.gather(own_tensor(dtype), tensors if rank() == 1 else None, dst=1)
    return tensors


def scattered(dtype):
    tensor = torch.zeros_like(own_tensor(dtype))
    parts = [own_tensor(dtype, of=10 * r) for r in range(world())] if rank() == 1 else None
    dist.scatter(tensor, parts, src=1)
    return tensor


def sent(dtype):
    tensor = torch.zeros_like(own_tensor(dtype))
    if rank() % 2 == 0:
        dist.send(own_tensor(dtype), following())
        dist.recv(tensor, previous())
    else:
        dist.recv(tensor, previous())
        dist.send(own_tensor(dtype), following())
    return tensor


for _dtype in DTYPES:
    for _op in OPS:
        CELLS[f"all_reduce {_op} {_dtype}"] = partial(all_reduced, _op, _dtype)
    CELLS[f"reduce SUM {_dtype}"] = partial(reduced, "SUM", _dtype)
    for _name, _function in {
        "broadcast": broadcasted,
        "all_gather": all_gathered,
        "gather": gathered,
        "scatter": scattered,
        "send and recv": sent,
    }.items():
        CELLS[f"{_name} {_dtype}"] = partial(_function, _dtype)
for _op in OPS[1:]:
    CELLS[f"reduce {_op} int32"] = partial(reduced, _op, "int32")
