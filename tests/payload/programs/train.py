"""Trains, writes its weights and arguments, and prints many lines."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Error(Exception):
    pass


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(100, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(rank)
for _ in range(5):
    inputs = torch.randn(64, 100)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.all_reduce(torch.ones(3, dtype=torch.float64))
weights = [value for parameter in model.parameters() for value in parameter.flatten().tolist()]
with open(os.path.join(sys.argv[1], f"{rank}.json"), "w") as file:
    json.dump(
        {
            "weights": weights,
            "argv": sys.argv,
            "name": __name__,
            "file": __file__,
            "backend": str(dist.get_backend()),
        },
        file,
    )
for line in range(200):
    print(rank, "line", line, "x" * 100)
if torch.__version__.startswith("1."):  # torch 2 has a temporary directory to remove
    os._exit(0)  # torch 1.7.1 may end in a segmentation fault under Python 3.9
