"""Training with fully_shard, unchanged; each rank writes its weights.

fsdp_train.py DIRECTORY
"""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Linear(20, 1)
fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(rank)
inputs = torch.randn(16, 16, 20)
losses = []
for batch in inputs:
    loss = torch.nn.functional.mse_loss(model(batch), batch.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
weights = [value for one in model.parameters() for value in one.full_tensor().flatten().tolist()]
with open(os.path.join(sys.argv[1], f"{rank}.json"), "w") as file:
    json.dump({"weights": weights, "losses": losses, "size": size}, file)
dist.destroy_process_group()
