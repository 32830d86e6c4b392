"""Unchanged script for gloo, which sums, makes groups and starts again."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
dist.init_process_group("gloo")
assert "torch_switchml" in sys.modules
assert dist.get_backend() == "gloo", dist.get_backend()
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(100, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    loss = model(torch.randn(8, 100) * (rank + 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = [None] * world
dist.all_gather_object(weights, [p.tolist() for p in model.parameters()])
assert all(other == weights[0] for other in weights)
dist.monitored_barrier()
everyone = dist.new_group(backend="gloo")
assert dist.get_backend(everyone) == "gloo"
some = dist.new_group([0, 1])
if rank < 2:
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=some)
    assert tensor.tolist() == [2, 2, 2]
del model, optimizer, loss  # they hold the group, whose threads must end before the interpreter
dist.destroy_process_group()

store = "file://" + os.path.abspath("store")
dist.init_process_group(init_method=store, rank=rank, world_size=world)
tensor = torch.full((10,), rank + 1, dtype=torch.int32)
dist.all_reduce(tensor)
assert tensor.tolist() == [world * (world + 1) // 2] * 10
dist.destroy_process_group()
print("done")
