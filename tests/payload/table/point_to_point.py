"""Send and receive, equally often on each rank."""

import torch
import torch.distributed as dist

from table.common import cell, following, own_tensor, previous


@cell
def isend_and_irecv():
    tensor = torch.zeros_like(own_tensor())
    works = [dist.isend(own_tensor(), following()), dist.irecv(tensor, previous())]
    for work in works:
        work.wait()
    return [tensor, [work.is_completed() for work in works]]


@cell
def batch_isend_irecv():
    tensor = torch.zeros_like(own_tensor())
    operations = [
        dist.P2POp(dist.isend, own_tensor(), following()),
        dist.P2POp(dist.irecv, tensor, previous()),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return tensor


@cell
def send_a_list():
    dist.send([1.0], following())
