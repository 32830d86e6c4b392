"""Cases with tensors of a simulated device, which the plugin stages; see device.cpp."""

import os
import signal
import threading

import torch
import torch.distributed as dist
from cases import RANK, WORLD, check_same, check_sum, everyone, finish, raised, start


def on_device(values):
    """Return a tensor of the device with these values."""
    tensor = torch.ops.simulated.empty(values.numel())
    return tensor.copy_(values, non_blocking=True)


def on_host(tensor):
    return torch.empty(tensor.numel()).copy_(tensor)


def outlives(switchml, library, switch, rounds, dies, number=signal.SIGKILL):
    """Sum and scatter several tensors of a device while the switch gets a signal."""
    torch.ops.load_library(library)
    start()
    for step in range(rounds):
        if RANK == 0 and step == dies:
            threading.Timer(0.002, os.kill, (switch, number)).start()
        pending = []
        for k in range(4):
            tensors = everyone(500 + 4000 * k, torch.float32, seed=10 * step + k)
            mine = on_device(tensors[RANK])
            pending.append((dist.all_reduce(mine, async_op=True), mine, tensors))
        whole = everyone(WORLD * 4000, torch.float32, seed=step)
        part = torch.ops.simulated.empty(4000)
        dist.reduce_scatter_tensor(part, on_device(whole[RANK]))
        pending.append((None, part, [tensor.chunk(WORLD)[RANK] for tensor in whole]))
        for work, mine, tensors in pending:
            if work is not None:
                work.wait()
                check_same(on_host(mine))
            check_sum(on_host(mine), tensors)


def late(switchml, library, victim):
    """Sum what the device of one rank never reaches."""
    torch.ops.load_library(library)
    start()
    tensors = everyone(1000, torch.float32)
    mine = on_device(tensors[RANK])
    dist.all_reduce(mine)
    check_sum(on_host(mine), tensors)
    if victim == RANK:
        torch.ops.simulated.hold()
    mine = on_device(tensors[RANK])
    why = raised(dist.all_reduce, mine)
    if victim == RANK:
        torch.ops.simulated.let_go()
    return finish(switchml, why=why)
