"""Training over gloo with DistributedDataParallel, for a job on several hosts.

cluster_train.py [DIRECTORY]: writes its result as JSON, to the current directory by default.
"""

import json
import os
import socket
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 8


def data(rank):
    inputs = torch.randn(32, 64, generator=torch.Generator().manual_seed(100 + rank))
    return inputs, inputs[:, :8] - inputs[:, 8:16]


def network():
    torch.manual_seed(1)
    return torch.nn.Linear(64, 8)


def train(model, inputs, targets):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (model(inputs) - targets).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    model = network()
    losses = train(DistributedDataParallel(model), *data(rank))
    alone = network()
    train(alone, *map(torch.cat, zip(*map(data, range(size)))))
    import torch_switchml  # for its report

    seen = {
        "rank": rank,
        "size": size,
        "local": [int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])],
        "host": socket.gethostname(),
        "right": torch.allclose(model.weight, alone.weight, rtol=0, atol=1e-4),
        "weights": model.weight.tolist(),
        "losses": losses,
        "report": torch_switchml.report(),
    }
    dist.barrier()
    with open(os.path.join(*sys.argv[1:2], f"{rank}.json"), "w") as file:
        json.dump(seen, file)
    dist.destroy_process_group()


main()
