"""Groups, and functions that describe them."""

import torch
import torch.distributed as dist

from table.common import BACKEND, TIMEOUT, cell, default_group, own_tensor, rank, world


@cell
def group_of_some():
    members = list(range(world() - 1))
    group = dist.new_group(members)
    tensor = own_tensor()
    dist.all_reduce(tensor, group=group)
    return [tensor, dist.get_rank(group), dist.get_world_size(group)]


@cell
def group_with_a_timeout():
    group = dist.new_group(timeout=TIMEOUT, backend=BACKEND)
    tensor = own_tensor()
    dist.all_reduce(tensor, group=group)
    return [tensor, dist.get_rank(group), dist.get_backend(group)]


@cell
def several_groups():
    groups = [dist.new_group(members) for members in ([0, 1], [2, 3], [1, 3], [0, 1, 2, 3])]
    answers = []
    for _ in range(2):
        for group in groups:
            tensor = own_tensor("int32")
            if dist.get_rank(group) >= 0:
                dist.all_reduce(tensor, group=group)
            answers.append(tensor)
        tensor = own_tensor()
        dist.all_reduce(tensor)
        answers.append(tensor)
    return answers


@cell
def collectives_of_a_group():
    group = dist.new_group([1, 3])
    if rank() not in {1, 3}:
        return None
    tensor, tensors = own_tensor(), [torch.zeros(3), torch.zeros(3)]
    dist.broadcast(tensor, src=3, group=group)
    dist.all_gather(tensors, own_tensor(), group=group)
    dist.barrier(group=group)
    return [tensor, tensors]


@cell
def subgroups():
    group, groups = dist.new_subgroups(2)
    tensor = own_tensor()
    dist.all_reduce(tensor, group=group)
    return [tensor, len(groups), dist.get_rank(group)]


@cell
def subgroups_by_enumeration():
    group, groups = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
    tensor = own_tensor()
    dist.all_reduce(tensor, group=group)
    return [tensor, len(groups), dist.get_rank(group)]


@cell
def group_of_nobody():
    dist.new_group([world()])


@cell
def group_that_is_destroyed():
    group = dist.new_group()
    dist.all_reduce(own_tensor(), group=group)
    dist.destroy_process_group(group)
    tensor = own_tensor()
    dist.all_reduce(tensor)
    return tensor


@cell
def debug_level():
    return str(dist.get_debug_level())


@cell
def profiled_collectives():
    with torch.autograd.profiler.profile() as profile:
        dist.all_reduce(own_tensor())
        dist.all_reduce(own_tensor("float64"))
        dist.broadcast(own_tensor(), src=0)
    names = [event.name.replace(f"{BACKEND}:", "gloo:") for event in profile.function_events]
    return sorted(name for name in names if name.startswith("gloo:"))


@cell
def group_itself():
    group = default_group()
    return [group.rank(), group.size(), dist.get_backend(), type(group).__name__, group.name()]
