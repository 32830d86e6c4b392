"""Rank that prints the seconds of each round."""

import json
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
found = {}
for numel, rounds in json.loads(sys.argv[1]).items():
    tensor = torch.ones(int(numel))
    dist.all_reduce(tensor)
    dist.barrier()
    found[numel] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        dist.all_reduce(tensor)
        found[numel].append(time.perf_counter() - begun)
    dist.barrier()
if dist.get_rank() == 0:
    print("RESULT " + json.dumps(found), flush=True)
dist.destroy_process_group()
