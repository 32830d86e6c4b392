"""Cells that leave a group unusable if TORCH_DISTRIBUTED_DEBUG is DETAIL, so they run last.

Torch 2 then compares the numbers of calls of the ranks, also of send and recv.
"""

import torch
import torch.distributed as dist

from table.common import cell, own_tensor, rank, world


@cell
def recv_from_any_source():
    if rank() != 0:
        dist.send(own_tensor(), 0, tag=7)  # a tag of this cell only: the next may have begun
        return None
    senders, total = [], torch.zeros_like(own_tensor())
    for _ in range(world() - 1):
        tensor = torch.zeros_like(own_tensor())
        senders.append(dist.recv(tensor, tag=7))
        total += tensor
    return [sorted(senders), total]


@cell
def tags_out_of_order():
    if rank() == 0:
        works = [dist.isend(own_tensor(of=10 * tag), 1, tag=tag) for tag in (1, 2, 3)]
        return [work.wait() is not False for work in works]
    received = {}
    if rank() == 1:
        for tag in (3, 1, 2):
            tensor = torch.zeros_like(own_tensor())
            dist.recv(tensor, 0, tag=tag)
            received[tag] = tensor
    return received
