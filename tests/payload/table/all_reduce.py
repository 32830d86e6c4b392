"""Cells of sums, and of ways to wait for them."""

import torch
import torch.distributed as dist
import torch.distributed.nn  # before a group exists, which its default arguments would keep

from table.common import cell, default_group, own_tensor, rank, world


@cell
def all_reduce_async():
    tensors = [own_tensor("float32", 100 + i) for i in range(10)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    waited = [work.wait() for work in works]
    return [waited, [w.is_completed() for w in works], [w.is_success() for w in works], tensors]


@cell
def all_reduce_future():
    tensor = own_tensor()
    future = dist.all_reduce(tensor, async_op=True).get_future()
    chained = future.then(lambda done: done.value()[0] * 2)
    return [chained.wait(), future.done(), future.value()[0], tensor]


@cell
def all_reduce_large():
    tensor = own_tensor("float32", 1_000_003)
    dist.all_reduce(tensor)
    return [tensor[:5], tensor[-5:], float(tensor.double().sum())]


@cell
def all_reduce_of_no_elements():
    tensor = torch.zeros(0)
    dist.all_reduce(tensor)
    return tensor


@cell
def all_reduce_of_a_scalar():
    tensor = torch.tensor(float(rank() + 1))
    dist.all_reduce(tensor)
    return tensor


@cell
def all_reduce_transposed():
    tensor = own_tensor("float32", 12).view(3, 4)
    dist.all_reduce(tensor.t())
    return tensor


@cell
def all_reduce_with_gaps():
    tensor = own_tensor("int32", 12)
    dist.all_reduce(tensor[::3])
    return tensor


@cell
def all_reduce_sparse():
    tensor = torch.sparse_coo_tensor([[rank(), 1]], torch.ones(2), (world(),))
    dist.all_reduce(tensor)
    return tensor


@cell
def all_reduce_of_a_parameter():
    parameter = own_tensor().requires_grad_()
    dist.all_reduce(parameter)
    return [parameter, parameter.requires_grad]


@cell
def all_reduce_coalesced():
    tensors = [own_tensor("float32", 5), own_tensor("float32", 7)]
    dist.all_reduce_coalesced(tensors)
    one = [own_tensor("float32", 5)]
    dist.all_reduce_coalesced(one)
    return [tensors, one]


@cell
def all_reduce_of_several_tensors():
    tensors = [own_tensor(), own_tensor()]
    default_group().allreduce(tensors).wait()
    return tensors


@cell
def all_reduce_of_none():
    default_group().allreduce([]).wait()


@cell
def all_reduce_of_two_types():
    default_group().allreduce([own_tensor(), own_tensor("float64")]).wait()


@cell
def all_reduce_of_a_list():
    dist.all_reduce([own_tensor()])


@cell
def all_reduce_with_autograd():
    tensor = own_tensor().requires_grad_()
    total = torch.distributed.nn.all_reduce(tensor)
    (total * (rank() + 1)).sum().backward()
    return [total, tensor.grad]
