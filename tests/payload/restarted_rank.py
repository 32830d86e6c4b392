"""Rank that trains from its checkpoint; one rank is killed in each of the first attempts.

restarted_rank.py DIRECTORY BACKEND KILLS

KILLS are JSON: for each attempt the victim, the step, or -1 before there is a group, and how many
seconds later. Writes its result to RANK.json in the directory. The launcher restarts all ranks.
"""

import json
import os
import signal
import sys
import threading

import torch
import torch.distributed as dist
import torch_switchml

STEPS, SAVED = 24, 4
NUMEL = 300_000  # more than one packet of each slot

directory, backend, kills = sys.argv[1:]
checkpoint = os.path.join(directory, "checkpoint")
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
victim, killed, later = [*json.loads(kills), (None, -1, 0)][attempt]
dies = int(os.environ["RANK"]) == victim
end = threading.Timer(later, os.kill, (os.getpid(), signal.SIGKILL))
torch.set_num_threads(1)
if dies and killed < 0:
    end.start()
dist.init_process_group(backend)
rank, size = dist.get_rank(), dist.get_world_size()
weights, begin = torch.zeros(NUMEL, dtype=torch.int32), 0
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint)
    weights, begin = saved["weights"], saved["step"]
for step in range(begin, STEPS):
    gradient = torch.arange(NUMEL, dtype=torch.int32) % 1000 * (rank + 1) + step
    work = dist.all_reduce(gradient, async_op=True)
    if dies and killed >= 0 and step == max(killed, begin):
        end.start()
    work.wait()
    weights += gradient
    if rank == 0 and (step + 1) % SAVED == 0:
        torch.save({"weights": weights, "step": step + 1}, checkpoint + ".part")
        os.replace(checkpoint + ".part", checkpoint)
if dies:
    if not end.is_alive():
        end.start()
    end.join()
expected = torch.arange(NUMEL, dtype=torch.int32) % 1000 * (STEPS * size * (size + 1) // 2)
expected += size * STEPS * (STEPS - 1) // 2
dist.barrier()
seen = {
    "attempt": attempt,
    "begin": begin,
    "right": bool(torch.equal(weights, expected)),
    "report": torch_switchml.report(),
}
with open(os.path.join(directory, f"{rank}.json"), "w") as file:
    json.dump(seen, file)
dist.destroy_process_group()
