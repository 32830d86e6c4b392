"""Cells of modules that use the collectives."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from table.common import cell, rank, world


def trained(hook=None, **options):
    model = torch.nn.Linear(4, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(rank() + 1)
    parallel = DistributedDataParallel(model, **options)
    if hook is not None:
        parallel.register_comm_hook(None, hook)
    for step in (1.0, 2.0):
        parallel(torch.full((2, 4), step * (rank() + 1))).sum().backward()
    with parallel.no_sync():
        parallel(torch.ones(1, 4)).sum().backward()
    return [[parameter, parameter.grad] for parameter in model.parameters()]


@cell
def data_parallel():
    return trained()


@cell
def data_parallel_with_views_and_unused_parameters():
    return trained(gradient_as_bucket_view=True, find_unused_parameters=True)


@cell
def data_parallel_with_hook():
    def hook(_, bucket):
        buffer = bucket.buffer() if hasattr(bucket, "buffer") else bucket.get_tensors()[0]
        future = dist.all_reduce(buffer, async_op=True).get_future()
        return future.then(lambda done: done.value()[0] / world())

    return trained(hook)


@cell
def data_parallel_with_uneven_inputs():
    parallel = DistributedDataParallel(torch.nn.Linear(4, 1))
    with torch.no_grad():
        for parameter in parallel.parameters():
            parameter.fill_(1)
    with parallel.join():
        for _ in range(rank() + 1):
            parallel(torch.ones(1, 4)).sum().backward()
    return [parameter.grad for parameter in parallel.parameters()]
