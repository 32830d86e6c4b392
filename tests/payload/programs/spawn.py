"""Spawns two ranks, which sum."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, world):
    store = "file://" + os.path.abspath("store")
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    # Kept until the group has ended. Gloo's thread would drop the last reference to a temporary and
    # need the GIL for that, while the end of the group holds the GIL and waits for that thread.
    tensor = torch.full((1000,), rank + 1, dtype=torch.int32)
    dist.all_reduce(tensor)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, (2,), 2)
