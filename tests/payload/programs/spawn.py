"""Spawns three ranks, which sum."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, world):
    store = "file://" + os.path.abspath("store")
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    tensor = torch.full((1000,), rank + 1)
    dist.all_reduce(tensor.to(torch.int32))
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, (3,), 3)
