"""Sending and receiving."""

import torch
import torch.distributed as dist

from table.common import cell, following, mine, previous, rank, world


@cell
def isend_and_irecv():
    tensor = torch.zeros_like(mine())
    works = [dist.isend(mine(), following()), dist.irecv(tensor, previous())]
    for work in works:
        work.wait()
    return [tensor, [work.is_completed() for work in works]]


@cell
def recv_from_any_source():
    if rank() != 0:
        dist.send(mine(), 0, tag=7)  # a tag that no other cell takes: the next may have begun
        return None
    senders, total = [], torch.zeros_like(mine())
    for _ in range(world() - 1):
        tensor = torch.zeros_like(mine())
        senders.append(dist.recv(tensor, tag=7))
        total += tensor
    return [sorted(senders), total]


@cell
def tags_out_of_order():
    if rank() == 0:
        works = [dist.isend(mine(of=10 * tag), 1, tag=tag) for tag in (1, 2, 3)]
        return [work.wait() is not False for work in works]
    received = {}
    if rank() == 1:
        for tag in (3, 1, 2):
            tensor = torch.zeros_like(mine())
            dist.recv(tensor, 0, tag=tag)
            received[tag] = tensor
    return received


@cell
def batch_isend_irecv():
    tensor = torch.zeros_like(mine())
    operations = [
        dist.P2POp(dist.isend, mine(), following()),
        dist.P2POp(dist.irecv, tensor, previous()),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return tensor


@cell
def send_a_list():
    dist.send([1.0], following())
