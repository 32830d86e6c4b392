"""Times of making process groups, measured in the ranks."""

import datetime as dt
import os
import time

import torch.distributed as dist

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])


def time_groups(switchml, rounds):
    """Return the seconds of each of `rounds` groups, made in turn over one Store.

    The ranks meet first, so that their start is not included.
    """
    limit = dt.timedelta(seconds=120)
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(host, port, WORLD, RANK == 0, limit)
    seconds, delegating = [], []
    for number in range(rounds):
        own = dist.PrefixStore(f"group{number}", store)
        if own.add("come", 1) == WORLD:
            own.set("met", "1")
        own.wait(["met"])
        begun = time.perf_counter()
        dist.init_process_group("gloo", store=own, rank=RANK, world_size=WORLD, timeout=limit)
        seconds.append(time.perf_counter() - begun)
        delegating.append((switchml.report() or {}).get("delegating", False))
        dist.destroy_process_group()
    if RANK == 0:
        store.wait(["left"])  # it has the Store
    elif store.add("leaving", 1) == WORLD - 1:
        store.set("left", "1")
    return {"seconds": seconds, "delegating": delegating}
