"""The other collectives, of tensors and of objects."""

import torch
import torch.distributed as dist

from table.common import cell, everyones, own_tensor, rank, world


@cell
def broadcast_async():
    tensor = own_tensor()
    work = dist.broadcast(tensor, src=1, async_op=True)
    work.wait()
    return [tensor, work.is_completed()]


@cell
def all_gather_into_tensor():
    tensor = torch.zeros(3 * world())
    dist.all_gather_into_tensor(tensor, own_tensor())
    return tensor


@cell
def all_gather_coalesced():
    lists = [[torch.zeros(3), torch.zeros(5)] for _ in range(world())]
    dist.all_gather_coalesced(lists, [own_tensor(), own_tensor("float32", 5)])
    return lists


@cell
def reduce_scatter():
    tensor = torch.zeros(3)
    dist.reduce_scatter(tensor, everyones(torch.ones_like))
    return tensor


@cell
def reduce_scatter_tensor():
    tensor = torch.zeros(3)
    dist.reduce_scatter_tensor(tensor, own_tensor("float32", 3 * world()))
    return tensor


@cell
def all_to_all():
    tensors = everyones()
    dist.all_to_all(tensors, [own_tensor(of=10 * r) for r in range(world())])
    return tensors


@cell
def barrier():
    """Use an own group, because Gloo's barrier raises the last work's error again."""
    group = dist.new_group()
    return [dist.barrier(group), dist.barrier(group, async_op=True).wait()]


@cell
def all_gather_object():
    objects = [None] * world()
    dist.all_gather_object(objects, {"rank": rank(), "text": "x" * 10 * rank()})
    return objects


@cell
def gather_object():
    objects = [None] * world() if rank() == 1 else None
    dist.gather_object({"rank": rank()}, objects, dst=1)
    return objects


@cell
def broadcast_object_list():
    objects = [{"rank": rank()}, "text"] if rank() == 1 else [None, None]
    dist.broadcast_object_list(objects, src=1)
    return objects


@cell
def scatter_object_list():
    received = [None]
    objects = [{"to": r} for r in range(world())] if rank() == 1 else None
    dist.scatter_object_list(received, objects, src=1)
    return received
