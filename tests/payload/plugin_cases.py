"""Cases that run in each rank with the plugin alone."""

import datetime as dt
import os
import sys
import threading
import time
import types

import torch
import torch.distributed as dist
from cases import (
    RANK,
    WORLD,
    allreduce_and_check,
    calls,
    check_rounded,
    check_same,
    check_sum,
    default_group,
    everyone,
    finish,
    fit,
    raised,
    start,
    tell,
    wait_for,
)
from torch import profiler
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

RELEASE = tuple(map(int, torch.__version__.split(".")[:2]))


def model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


def train(parallel, steps=4):
    """Return the weights after some steps on this rank's own data."""
    fit(parallel, steps)
    return torch.cat([p.detach().flatten() for p in parallel.parameters()])


def same_everywhere(weights):
    """Check that the weights are finite, and the same on all ranks."""
    assert torch.isfinite(weights).all()
    check_same(weights)
    return weights


def collective_reduce_scatter(switchml):
    """Scatter sums of every type over the ranks; the input is unchanged."""
    start()
    expected = elements = 0
    for dtype in (torch.float32, torch.int32, torch.bfloat16, torch.float16):
        ops = [("SUM", 1)] if dtype == torch.int32 else [("SUM", 1), ("AVG", WORLD)]
        for op, divisor in ops:
            inputs = everyone(WORLD * 700, dtype, seed=expected)
            mine = inputs[RANK].clone().view(WORLD * 7, 100)
            part = torch.empty(7, 100, dtype=dtype)
            dist.reduce_scatter_tensor(part, mine, op=getattr(dist.ReduceOp, op))
            parts = [t.chunk(WORLD)[RANK] for t in inputs]
            if dtype == torch.int32:
                assert torch.equal(part.flatten(), sum(parts))
            else:
                check_rounded(part.flatten(), parts, divisor, of=inputs)
            assert torch.equal(mine.flatten(), inputs[RANK])
            expected += 1
            elements += WORLD * 700
    flat = torch.empty(WORLD * 5)[::WORLD]
    dist.reduce_scatter_tensor(flat, torch.ones(5 * WORLD))
    assert torch.equal(flat, torch.full((5,), float(WORLD)))
    whole = inputs[RANK].float()  # the part overlaps other elements
    dist.reduce_scatter_tensor(whole[:700], whole)
    wide = [t.float() for t in inputs]
    check_rounded(whole[:700], [t.chunk(WORLD)[RANK] for t in wide], of=wide)
    assert torch.equal(whole[700:], inputs[RANK][700:].float())
    elements += WORLD * 700
    report = switchml.report()
    assert (report["calls"], report["bytes"]) == (expected + 2, 4 * (elements + 5 * WORLD)), report

    mine = torch.ones(WORLD, dtype=torch.float64) * (RANK + 1)
    part = torch.empty(1, dtype=torch.float64)
    dist.reduce_scatter_tensor(part, mine)
    assert float(part) == WORLD * (WORLD + 1) / 2
    assert switchml.report()["fallbacks"]["dtype"] == 1, switchml.report()
    if not torch.__version__.startswith("2.6."):  # its Gloo ends the process
        given = torch.empty(3), torch.ones(WORLD)  # the part has another size
        assert raised(dist.reduce_scatter_tensor, *given, kind=(RuntimeError, ValueError))


def reduce_scattered_together(switchml):
    """Scatter several sums as one job."""
    start()
    inputs = [everyone(WORLD * n, torch.float32, seed=n) for n in (0, 3, 500)]
    parts = [inputs[0][RANK], torch.empty(3), torch.empty(500)]  # the first is in place
    with dist._coalescing_manager():
        for part, tensors in zip(parts, inputs):
            dist.reduce_scatter_tensor(part, tensors[RANK])
    for part, tensors in zip(parts[1:], inputs[1:]):
        check_sum(part, [t.chunk(WORLD)[RANK] for t in tensors])
    assert calls(switchml) == 1, switchml.report()


def lonely(switchml, how):
    """Rank 0 sums alone; return after how many seconds it fails, and its error.

    The limit is that of a call or a new timeout of the group, or the group is aborted.
    """
    start()
    allreduce_and_check(10, torch.float32)
    if RANK != 0:
        wait_for(0)
        return {"report": switchml.report()}
    began = time.monotonic()
    options = dist.AllreduceOptions()
    if how == "call":
        options.timeout = dt.timedelta(seconds=2)
    elif how == "group":
        default_group().set_timeout(dt.timedelta(seconds=2))
    work = default_group().allreduce([torch.ones(10)], options)
    if how == "abort":
        time.sleep(1)
        default_group().abort()
    report = {"error": raised(work.wait), "elapsed": time.monotonic() - began}
    if how == "abort":
        report["again"] = raised(default_group().allreduce, [torch.ones(10)], options)
    return tell(report)


def barrier_waits(switchml):
    """A barrier ends after all earlier allreduces, even those without a wait."""
    start()
    tensors = [torch.full((200_000,), float(RANK + i)) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    dist.barrier()
    for i, tensor in enumerate(tensors):
        assert torch.equal(tensor, torch.full_like(tensor, WORLD * (WORLD - 1) / 2 + WORLD * i))
    assert all(work.get_future().done() for work in works)


def barrier_fails(switchml):
    """A barrier raises the error of an earlier allreduce without a wait."""
    start()
    if RANK == 0:
        dist.all_reduce(torch.ones(1000), async_op=True)
    return {"error": raised(dist.barrier) or ""}


def barriers_in_callbacks(switchml, number):
    """A barrier waits neither for the work whose callback calls it, nor for such a barrier."""
    start()

    def barrier(_future):
        dist.barrier()
        return torch.ones(1)

    sizes = [8_000_000] + [1000] * number  # large, so that all callbacks exist before its sum
    works = [dist.all_reduce(torch.ones(size), async_op=True) for size in sizes]
    futures = [work.get_future().then(barrier) for work in works]
    dist.barrier()
    for future in futures:
        assert float(future.wait()) == 1


def hooks(switchml):
    """Train with communication hooks, one of which waits in its callbacks."""
    start()
    plain = same_everywhere(train(DistributedDataParallel(model())))
    counted = []
    for name in ("allreduce_hook", "fp16_compress_hook"):
        before = calls(switchml)
        parallel = DistributedDataParallel(model())
        parallel.register_comm_hook(None, getattr(default_hooks, name))
        weights = same_everywhere(train(parallel))
        assert torch.allclose(weights, plain, atol=0.01), name
        counted.append(calls(switchml) - before)
    before = calls(switchml)
    parallel = DistributedDataParallel(model())
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
    parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    same_everywhere(train(parallel, steps=8))
    counted.append(calls(switchml) - before)
    return finish(switchml, counted=counted)


def callbacks(switchml, number):
    """Sum and wait in more callbacks than the plugin has threads.

    Callbacks of several works run in any order on a rank, so all of them sum equal tensors.
    """
    start()
    tensors = [everyone(1000 + i, torch.float32, seed=i) for i in range(number)]
    mine = [t[RANK].clone() for t in tensors]

    def again(_future):
        return dist.all_reduce(torch.ones(100), async_op=True).get_future().wait()[0]

    works = [dist.all_reduce(t, async_op=True) for t in mine]
    futures = [work.get_future().then(again) for work in works]
    for future in futures:
        assert torch.equal(future.wait(), torch.full((100,), float(WORLD)))
    for result, inputs in zip(mine, tensors):
        check_sum(result, inputs)
    assert calls(switchml) == 2 * number, switchml.report()

    def fails(_future):
        raise ValueError("a callback that fails")

    future = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(fails)
    assert "a callback that fails" in str(raised(future.wait))
    allreduce_and_check(100, torch.float32)


def never_blocks(switchml, number):
    """Rank 0 starts all its allreduces before another rank has called one."""
    start()
    token = torch.zeros(1)
    tensors = [everyone(5000 + i, torch.float32, seed=i) for i in range(number)]
    mine = [t[RANK].clone() for t in tensors]
    if RANK > 0:
        dist.recv(token, src=0)
    works = [dist.all_reduce(t, async_op=True) for t in mine]
    barrier = dist.barrier(async_op=True)
    if RANK == 0:
        assert not any(work.is_completed() for work in (*works, barrier))
        assert "timed out" in str(raised(works[-1].wait, dt.timedelta(milliseconds=20)))
        for peer in range(1, WORLD):
            dist.send(token, dst=peer)
    assert barrier.wait()
    assert all(work.get_future().done() for work in (*works, barrier))
    for work, result, inputs in zip(works, mine, tensors):
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()
        assert RELEASE < (2, 13) or work.exception() is None  # before, Python lacks the type
        assert torch.equal(work.result()[0], result)
        assert torch.equal(work.get_future().value()[0], result)
        check_sum(result, inputs)
    with torch.inference_mode():
        square = torch.full((10, 10), 1.0)
        dist.all_reduce(square.t()[:, ::2])
        assert float(square.sum()) == 50 * WORLD + 50
    last = torch.ones(50_000)
    work = dist.all_reduce(last, async_op=True)
    if hasattr(work, "block_current_stream"):
        work.block_current_stream()
        assert float(last.sum()) == 50_000 * WORLD
    work.wait()


def names(switchml, store):
    """Name the backend in every way, and check what torch knows of the group."""
    place = {"rank": RANK, "world_size": WORLD}
    dist.init_process_group("cpu:switchml", init_method=f"file://{store}/first", **place)
    assert not hasattr(dist, "is_backend_available") or dist.is_backend_available("switchml")
    assert dist.get_backend() == "cpu:switchml"
    allreduce_and_check(100, torch.float32)
    assert calls(switchml) == 1
    gloo = dist.new_group(backend="gloo")
    other = dist.new_group(backend="switchml")
    allreduce_and_check(100, torch.float32, group=gloo, exact=False)
    assert switchml.report()["fallbacks"]["group"] == 0
    allreduce_and_check(100, torch.float32, group=other, exact=False)
    assert switchml.report()["fallbacks"]["group"] == 1
    backend = default_group()._get_backend(torch.device("cpu"))
    assert backend.name() == "switchml"
    before = backend._get_sequence_number_for_group()
    allreduce_and_check(100, torch.float32)
    dist.barrier()
    assert backend._get_sequence_number_for_group() == before + 2
    default_group().monitored_barrier(dt.timedelta(seconds=60), wait_all_ranks=True)
    with profiler.profile() as profile:
        allreduce_and_check(100, torch.float32)
    assert "switchml:all_reduce" in [event.name for event in profile.events()]
    del backend, gloo, other
    dist.destroy_process_group()

    options = dist.ProcessGroupGloo._Options()
    options._timeout = dt.timedelta(seconds=60)
    options._devices = [dist.ProcessGroupGloo.create_device(interface="lo")]
    options._threads = 3
    where = f"file://{store}/second"
    dist.init_process_group("switchml", init_method=where, pg_options=options, **place)
    before = calls(switchml)
    allreduce_and_check(100, torch.float32)
    allreduce_and_check(100, torch.float64, exact=False)
    assert calls(switchml) == before + 1


def destroyed(switchml, store):
    """Destroy a group with work in flight that is still referred to."""
    start(f"file://{store}/first")
    first = default_group()
    tensors = [everyone(50_000 + i, torch.float32, seed=i) for i in range(20)]
    mine = [t[RANK].clone() for t in tensors]
    works = [dist.all_reduce(t, async_op=True) for t in mine]
    dist.destroy_process_group()
    for work, result, inputs in zip(works, mine, tensors):
        work.wait()
        check_sum(result, inputs)
    if not hasattr(dist.ProcessGroup, "shutdown"):
        first = None  # an older torch destroys a group by forgetting it
    assert switchml.report()["delegating"] is False
    start(f"file://{store}/second")
    before = calls(switchml)
    allreduce_and_check(1000, torch.float32)
    assert calls(switchml) == before + 1, switchml.report()
    del first
    allreduce_and_check(1000, torch.float32)
    assert calls(switchml) == before + 2, switchml.report()


def unwaited(switchml, number):
    """End the program with work in flight, whose callbacks are Python."""
    start()

    def called(_future):
        sys.stdout.write("CALLED\n")
        sys.stdout.flush()

    for i in range(number):
        dist.all_reduce(torch.ones(50_000 + i), async_op=True).get_future().then(called)
    return {}


def dropped_in_callback(switchml, store):
    """A callback drops the last reference to a group, on each rank in turn."""
    for number in range(WORLD):
        own = dist.FileStore(f"{store}/dropped{number}", WORLD)
        options = types.SimpleNamespace(
            store=own,
            group_rank=RANK,
            group_size=WORLD,
            timeout=dt.timedelta(seconds=60),
            group_id="dropped",
            global_ranks_in_group=[],
        )
        holder = [switchml._create(options, None)]
        tensor = torch.ones(100)
        if number == RANK:
            drop_in_callback(switchml, holder, tensor, own)
        else:
            own.wait(["attached"])
            holder.pop().allreduce([tensor]).wait()
        assert torch.equal(tensor, torch.full((100,), float(WORLD)))
    return {}


def drop_in_callback(switchml, holder, tensor, store):
    """Sum on the other ranks once the callback exists, so that a thread of the pool calls it."""
    ready, ended = threading.Event(), threading.Event()

    def drop(_future):
        ready.wait()
        assert switchml.report()["delegating"]
        holder.clear()
        assert not switchml.report()["delegating"], "the group has ended here"
        ended.set()

    holder[0].allreduce([tensor]).get_future().then(drop)
    store.set("attached", "yes")
    ready.set()
    assert ended.wait(60)


def forked(switchml):
    """A forked child cannot sum, and says so; its end does not affect the parent."""
    start()
    allreduce_and_check(1000, torch.float32)
    child = os.fork()
    if child == 0:
        os._exit("forked" not in str(raised(dist.all_reduce, torch.ones(10))))
    assert os.waitpid(child, 0)[1] == 0
    allreduce_and_check(1000, torch.float32)
    assert calls(switchml) == 2, switchml.report()
    assert switchml.report()["failure"] == ""
