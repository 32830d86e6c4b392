"""Rank of a job on several hosts; writes what it saw as JSON.

cluster_rank.py DIRECTORY [RANK | wait]: that rank fails in its first attempt, or each waits to be
ended, with a file named by its process.
"""

import json
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch_switchml

torch.set_num_threads(1)
dist.init_process_group("switchml")
rank, size = dist.get_rank(), dist.get_world_size()
values = torch.arange(10_000, dtype=torch.int32) + rank
dist.all_reduce(values)
expected = torch.arange(10_000, dtype=torch.int32) * size + size * (size - 1) // 2
seen = {
    "rank": rank,
    "size": size,
    "local": [int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])],
    "host": socket.gethostname(),
    "right": bool(torch.equal(values, expected)),
    "report": torch_switchml.report(),
}
if sys.argv[2:] == ["wait"]:
    with open(os.path.join(sys.argv[1], f"{os.getpid()}.pid"), "w"):
        time.sleep(600)
if sys.argv[2:] == [str(rank)] and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
    sys.exit(3)
dist.barrier()
with open(os.path.join(sys.argv[1], f"{rank}.json"), "w") as file:
    json.dump(seen, file)
dist.destroy_process_group()
