"""Times of allreduce through SwitchML and through Gloo, by size."""

import time
from typing import Any

SIZES = tuple(1 << power for power in range(8, 23, 2))  # elements
_MOST, _LEAST = 15, 3  # allreduces of a size
_ELEMENTS = 1 << 21  # of all allreduces of a size together, if they are enough


def measure(dist: Any, sizes: "list[int]", limit: float) -> "list[dict[str, float]]":
    """Time allreduces of the default group, which delegates, and of a group of Gloo.

    The two groups take turns, and all ranks measure the same sizes, in numbers of elements. No
    further size is measured after `limit` seconds.
    """
    import torch

    gloo = dist.new_group(backend="gloo")
    begun, times = time.monotonic(), []
    for numel in sizes:
        row = torch.zeros(numel)
        taken = {"switchml": [], "gloo": []}  # type: dict[str, list[float]]
        for _ in range(1 + min(_MOST, max(_LEAST, _ELEMENTS // numel))):
            for name, group in (("switchml", None), ("gloo", gloo)):
                row.fill_(1)
                start = time.perf_counter()
                dist.all_reduce(row, group=group) if group else dist.all_reduce(row)
                taken[name].append(time.perf_counter() - start)
        median = {name: sorted(each[1:])[len(each) // 2 - 1] for name, each in taken.items()}
        times.append(dict(median, numel=numel))
        late = torch.tensor([float(time.monotonic() - begun > limit)])
        dist.all_reduce(late, group=gloo)
        if late.item():
            break
    return times


def summarize(ranks: "list[list[dict[str, float]]]") -> "dict[str, Any] | None":
    """Return the slowest rank's times, and the size from which SwitchML is faster, or None."""
    if not ranks or not all(ranks):
        return None
    slowest = [
        {name: max(one[name] for one in each) for name in ("numel", "switchml", "gloo")}
        for each in zip(*ranks)
    ]
    first = None
    for one in reversed(slowest):
        if one["switchml"] >= one["gloo"]:
            break
        first = int(one["numel"])
    return {"sizes": slowest, "min_numel": first}
