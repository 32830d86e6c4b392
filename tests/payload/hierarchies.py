"""Cases that run in each rank, on hosts with several ranks."""

import datetime as dt
import importlib.util
import os
import signal
import time

import torch
import torch.distributed as dist
from cases import RANK, TIMEOUT, WORLD, finish, raised, start
from plugin_cases import model, same_everywhere, train
from torch.nn.parallel import DistributedDataParallel

LIMIT = dt.timedelta(seconds=TIMEOUT)
STEPS = 4


def parallel():
    """Return a model with two buckets, after the first step."""
    dist._DEFAULT_FIRST_BUCKET_BYTES = 4096  # an older torch takes no smaller ones otherwise
    return DistributedDataParallel(model(), bucket_cap_mb=0.004)


def compared(switchml, register):
    """A training has the same weights as without the hook, on all ranks.

    `register` gives a model its hook, and returns whether this rank is a leader.
    """
    reference = same_everywhere(train(parallel(), STEPS))
    before = switchml.report()
    hooked = parallel()
    leader = register(hooked)
    weights = same_everywhere(train(hooked, STEPS))
    assert torch.allclose(weights, reference, rtol=0, atol=1e-6)
    after = switchml.report()
    return finish(
        switchml,
        counted={name: after[name] - before[name] for name in ("calls", "bytes")},
        gradients=STEPS * 4 * weights.numel(),
        leader=leader,
    )


def trains(switchml, backend="gloo", local_size=None):
    start(backend=backend)

    def register(hooked):
        state = switchml.HierarchicalState(local_size, timeout=LIMIT)
        hooked.register_comm_hook(state, switchml.hierarchical_hook)
        return state.leader == RANK

    return compared(switchml, register)


def recipe(switchml, path):
    """Train with the lines of the documentation, which name the model `model`."""
    start(backend="gloo")

    def register(hooked):
        spec = importlib.util.spec_from_file_location("recipe", path)
        lines = importlib.util.module_from_spec(spec)
        lines.model = hooked
        spec.loader.exec_module(lines)
        return lines.leader == RANK

    return compared(switchml, register)


def overlaps(switchml, number):
    """The second tensor is summed in host 0 while host 1 has not passed any yet."""
    start(backend="gloo")
    store = dist.distributed_c10d._get_default_store()
    state = switchml.HierarchicalState(2, timeout=LIMIT)
    types = [torch.float32, torch.float16, torch.bfloat16]
    tensors = [
        torch.full((1000 + 7 * i,), float(RANK + 4 * i), dtype=types[i % 3]) for i in range(number)
    ]
    if RANK >= 2:
        store.wait(["host 0 has summed"], LIMIT)
    futures = [
        state.average(tensor, last=i == number - 1 or i == 3) for i, tensor in enumerate(tensors)
    ]
    if RANK == 0:
        summed = torch.full_like(tensors[1], (4.0 + 5.0) / WORLD)
        deadline = time.monotonic() + TIMEOUT
        while not torch.equal(tensors[1], summed):
            assert time.monotonic() < deadline, "nothing overlaps"
            time.sleep(0.01)
        assert not futures[0].done()
        store.set("host 0 has summed", "its second tensor")
    for i, (tensor, future) in enumerate(zip(tensors, futures)):
        assert future.wait() is tensor
        assert torch.equal(tensor, torch.full_like(tensor, (6.0 + 16 * i) / WORLD)), i


def dropped(switchml):
    """A callback in a thread of the state has its last reference."""
    start(backend="gloo")
    held = [switchml.HierarchicalState(1, timeout=LIMIT)]
    tensor = torch.full((2_000_000,), float(RANK))
    held[0].average(tensor).then(lambda _: held.clear()).wait()
    assert tensor[0] == (WORLD - 1) / 2


def dies(switchml, victim):
    """Kill a rank between two steps: all later sums of the others raise."""
    start(backend="gloo")
    state = switchml.HierarchicalState(2, timeout=LIMIT)
    trained = parallel()
    trained.register_comm_hook(state, switchml.hierarchical_hook)
    inputs = torch.ones(4, 64)
    trained(inputs).sum().backward()
    outputs = trained(inputs)  # DistributedDataParallel agrees on its buckets by Gloo here
    dist.barrier()
    if victim == RANK:
        os.kill(os.getpid(), signal.SIGKILL)
    errors = [raised(outputs.sum().backward)]
    errors.append(raised(lambda: state.average(torch.ones(1)).wait()))
    return {"errors": errors}


def refuses(switchml):
    """Impossible hosts and racks raise the same message on all of three ranks."""
    start(backend="gloo")
    nccl = {"local_backend": "nccl", "racks_backend": "nccl"}
    wrong = (
        {"local_size": 2},
        {"local_size": 0},
        {"local_size": 1 if RANK == 1 else 3},
        {"host": "one", "rack": "a" if RANK == 0 else None},
        {"host": "one", "rack": str(RANK)},
        {"host": str(RANK // 2), "rack": str(RANK // 2), **nccl},
    )
    errors = [raised(switchml.HierarchicalState, kind=ValueError, **given) for given in wrong]
    state = switchml.HierarchicalState(timeout=LIMIT)
    tensor = torch.full((10,), float(RANK))
    assert torch.equal(state.average(tensor).wait(), torch.full((10,), (WORLD - 1) / 2))
    return finish(switchml, errors=errors)
