"""Rank of a job on several hosts that names gloo; writes its result as JSON.

cluster_rank.py DIRECTORY
"""

import json
import os
import socket
import sys

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
values = torch.arange(10_000, dtype=torch.int32) + rank
dist.all_reduce(values)
expected = torch.arange(10_000, dtype=torch.int32) * size + size * (size - 1) // 2
import torch_switchml  # noqa: E402  # for its report

seen = {
    "rank": rank,
    "size": size,
    "local": [int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])],
    "host": socket.gethostname(),
    "right": bool(torch.equal(values, expected)),
    "report": torch_switchml.report(),
}
dist.barrier()
with open(os.path.join(sys.argv[1], f"{rank}.json"), "w") as file:
    json.dump(seen, file)
dist.destroy_process_group()
