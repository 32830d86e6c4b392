"""Rank behind a slow link: times allreduces of float32, in one group after the other.

python network_rank.py NUMEL ROUNDS GROUPS, where GROUPS is JSON: by name, the variables of a group,
or null for stock Gloo. Rank 0 prints by name, as JSON: the seconds of the slowest rank in each
round, those of an allreduce of one value, and the bytes that SwitchML sums.
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch_switchml

TINY = 20  # rounds of an allreduce of one value


def timed(group, source, rounds, tolerance):
    """Return the seconds of the slowest rank in each round; check the sums."""
    world, rank = dist.get_world_size(), dist.get_rank()
    seconds = []
    for _ in range(1 + rounds):  # the first round is a warm-up
        tensor = source * (rank + 1)
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(tensor, group=group)
        seconds.append(time.perf_counter() - begun)
        wrong = (tensor - source * (world * (world + 1) / 2)).abs().max()
        assert wrong <= tolerance * world * world, f"wrong by {wrong}"
    slowest = torch.tensor(seconds[1:], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.tolist()


def measured(variables, source, rounds):
    """Return the measurements of a group that is made with these variables."""
    os.environ.update(variables or {})
    group = dist.new_group(backend="gloo" if variables is None else "switchml")
    before = torch_switchml.report()
    bits = int((variables or {}).get("SWITCHML_QUANTIZATION_BITS", "20"))
    # The error of a rank is at most half a step of the largest value of all ranks.
    seconds = timed(group, source, rounds, 1 / (2**bits - 2))
    after = torch_switchml.report()
    one = timed(group, torch.ones(1), TINY, 1e-5)
    dist.destroy_process_group(group)
    for name in variables or ():
        del os.environ[name]
    calls = after["calls"] - before["calls"]
    assert calls == (0 if variables is None else 1 + rounds), "each sum goes its way"
    sent = (after["bytes"] - before["bytes"]) / max(calls, 1)
    return {"seconds": seconds, "one": statistics.median(one), "bytes": sent}


def main():
    numel, rounds, groups = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    source = torch.rand(numel, generator=torch.Generator().manual_seed(1)) - 0.5
    found = {name: measured(variables, source, rounds) for name, variables in groups.items()}
    if dist.get_rank() == 0:
        sys.stdout.write(json.dumps(found) + "\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
