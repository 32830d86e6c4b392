"""Spawns two ranks with the graft, which sum."""

import os
import sys

import torch.multiprocessing


def rank(number, run, port):
    os.environ["SWITCHML_CONFIG"] = os.path.join(run, str(number), "switchml.cfg")
    import torch
    import torch.distributed as dist
    from torch.distributed import switchml

    address = "tcp://127.0.0.1:" + port
    dist.init_process_group("gloo", init_method=address, rank=number, world_size=2)
    tensor = torch.full((1000,), number + 1.0)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [3.0] * 1000
    assert switchml.report()["calls"] == 1
    print("rank", number, "delegated")


if __name__ == "__main__":
    torch.multiprocessing.spawn(rank, sys.argv[1:], nprocs=2)
