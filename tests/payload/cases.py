"""Cases that run in each rank, with every torch that the patch supports."""

import contextlib
import datetime as dt
import math
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from support import quantize_model
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
BYPASS = os.environ.get("SWITCHML_TEST_PREPOSTPROCESSOR") == "bypass"
TIMEOUT = float(os.environ.get("SWITCHML_TEST_TIMEOUT", "60"))
BACKEND = os.environ.get("SWITCHML_TEST_BACKEND", "gloo")
HELD = []  # backends that are kept until the case has returned


def start(init_method="env://", backend=BACKEND):
    """Make the default group. Its timeout begins when all ranks run, however slowly they start."""
    limit, patient = (dt.timedelta(seconds=count) for count in (TIMEOUT, max(TIMEOUT, 60)))
    store, *_ = next(dist.rendezvous(init_method, RANK, WORLD, timeout=patient))
    store.set_timeout(limit)
    place = {"store": dist.PrefixStore("default_pg", store), "rank": RANK, "world_size": WORLD}
    dist.init_process_group(backend, timeout=limit, **place)


def default_group():
    return dist.distributed_c10d._get_default_group()


PERIOD = 1_000_003  # a prime, so that a wrong packet or slot has other values


def values(rank, numel, dtype, seed=0):
    """Return random values with a period of PERIOD elements."""
    if numel > PERIOD:
        return values(rank, PERIOD, dtype, seed).repeat(-(-numel // PERIOD))[:numel]
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    if dtype.is_floating_point:
        return torch.randn(numel, generator=generator).to(dtype)
    low, high = (0, 20) if dtype in (torch.uint8, torch.int8) else (-(10**6), 10**6)
    return torch.randint(low, high, (numel,), generator=generator, dtype=torch.int64).to(dtype)


def everyone(numel, dtype, seed=0, ranks=None):
    return [values(r, numel, dtype, seed) for r in (range(WORLD) if ranks is None else ranks)]


def in_rank_order(tensors):
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total += tensor
    return total


def bound(tensors):
    """Return the largest error of SwitchML's fixed point: of rounding, and of float32 products."""
    n = len(tensors)
    largest = max(max(float(t.max()), -float(t.min())) for t in tensors)
    if largest == 0:
        return 0.0
    scale = (2**31 - 1) / (n * 2.0 ** math.frexp(largest)[1])
    return n * (0.5 / scale + largest * 2.0**-24) + n * largest * 2.0**-23


def check_sum(result, tensors, exact=None):
    exact = BYPASS if exact is None else exact
    if not result.dtype.is_floating_point or exact:
        assert torch.equal(result, in_rank_order(tensors)), "not the exact sum"
    else:
        limit = bound(tensors)
        for parts in zip(*(t.flatten().split(PERIOD) for t in (result, *tensors))):
            mine, *inputs = (part.double() for part in parts)
            error = float((mine - sum(inputs)).abs().max())
            assert error <= limit, f"error {error:g}, bound {limit:g}"


def allreduce_and_check(numel, dtype, seed=0, group=None, ranks=None, exact=None):
    tensors = everyone(numel, dtype, seed, ranks)
    mine = tensors[(range(WORLD) if ranks is None else ranks).index(RANK)].clone()
    if group is None:
        dist.all_reduce(mine)
    else:
        dist.all_reduce(mine, group=group)
    check_sum(mine, tensors, exact)


def calls(switchml):
    return switchml.report()["calls"]


def backends():
    """Return Python's references to the backends of all groups.

    The owner of the last reference waits for Gloo's threads, which may need the GIL to free a
    tensor. Python releases the GIL for that wait, but `Reducer` of DistributedDataParallel and
    torch 2.6 do not.
    """
    world = getattr(dist.distributed_c10d, "_world", None)
    groups = world.pg_map if hasattr(world, "pg_map") else ()
    return [group._get_backend(torch.device("cpu")) for group in groups]


def destroy():
    held = backends()
    dist.destroy_process_group()
    held.clear()


def finish(switchml, **more):
    """End all groups after a case, and free models that the case still has."""
    report = switchml.report()
    if dist.is_initialized():
        HELD.extend(backends())
        dist.destroy_process_group()
    return dict(report=report, **more)


def sums(switchml, sizes):
    """Sum float32 and int32 of every size, blocking and async, contiguous and not."""
    start()
    expected_calls = expected_bytes = 0
    for seed, numel in enumerate(sizes):
        for dtype in (torch.float32, torch.int32):
            allreduce_and_check(numel, dtype, seed)
            expected_calls += 1
            expected_bytes += 4 * numel
    assert calls(switchml) == expected_calls, switchml.report()
    assert switchml.report()["bytes"] == expected_bytes, switchml.report()

    tensors = [everyone(1000 + i, torch.float32, seed=50 + i) for i in range(20)]
    mine = [t[RANK].clone() for t in tensors]
    works = [dist.all_reduce(t, async_op=True) for t in mine]
    for work, result, inputs in zip(works, mine, tensors):
        work.wait()
        check_sum(result, inputs)

    wide = everyone(600, torch.float32, seed=90)
    matrices = [t.view(20, 30) for t in wide]
    transposed = matrices[RANK].clone().t()
    dist.all_reduce(transposed)
    check_sum(transposed.t().contiguous(), matrices)
    sliced = torch.zeros(20, 60)
    sliced[:, ::2] = matrices[RANK]
    dist.all_reduce(sliced[:, ::2])
    check_sum(sliced[:, ::2].contiguous(), matrices)
    assert float(sliced[:, 1::2].abs().max()) == 0.0

    parameter = wide[RANK].clone().requires_grad_()
    dist.all_reduce(parameter.data)
    check_sum(parameter.detach(), wide)
    scalar = torch.tensor(float(RANK + 1))
    dist.all_reduce(scalar)
    check_sum(scalar.view(1), [torch.tensor([float(r + 1)]) for r in range(WORLD)])
    assert calls(switchml) == expected_calls + 24, switchml.report()


def fallbacks(switchml):
    """Whatever SwitchML cannot sum goes to Gloo, with Gloo's results."""
    start()
    dtypes = [torch.float64, torch.int64, torch.int8, torch.uint8]
    for dtype in dtypes:
        allreduce_and_check(1000, dtype, exact=not dtype.is_floating_point)
    assert switchml.report()["fallbacks"]["dtype"] == 4, switchml.report()

    inputs = [t.abs() % 7 + 1 for t in everyone(100, torch.float32)]
    for op, expected in (
        (dist.ReduceOp.PRODUCT, torch.stack(inputs).prod(0)),
        (dist.ReduceOp.MIN, torch.stack(inputs).min(0)[0]),
        (dist.ReduceOp.MAX, torch.stack(inputs).max(0)[0]),
    ):
        mine = inputs[RANK].clone()
        dist.all_reduce(mine, op=op)
        assert torch.allclose(mine, expected), op
    assert switchml.report()["fallbacks"]["op"] == 3, switchml.report()

    pair = [inputs[RANK].clone(), inputs[RANK].clone()]
    default_group().allreduce(pair).wait()
    for tensor in pair:
        assert torch.allclose(tensor, 2 * sum(inputs))
    assert switchml.report()["fallbacks"]["tensors"] == 1, switchml.report()

    error = raised(dist.all_reduce, torch.zeros(0))
    assert error is None or "elements > 0" in error, "what Gloo says in torch 1.7"
    assert switchml.report()["fallbacks"]["numel"] == 1, switchml.report()

    sparse = torch.sparse_coo_tensor([[RANK]], torch.ones(1), (WORLD,))
    dist.all_reduce(sparse)
    assert torch.equal(sparse.to_dense(), torch.ones(WORLD))
    assert calls(switchml) == 0, switchml.report()

    one = [inputs[RANK].clone()]
    dist.all_reduce_coalesced(one)
    check_sum(one[0], inputs)
    assert calls(switchml) == 1, switchml.report()


AVERAGES = hasattr(dist.ReduceOp, "AVG")
HALVES = (torch.bfloat16, torch.float16)


def check_rounded(result, tensors, divisor=1, of=None):
    """Check that a sum or an average was rounded once, to the nearest value of the tensors' type.

    Rounding keeps the order, so a value between two numbers is rounded to a value between their
    rounded values. `of` has the whole tensors if these are parts of them.
    """
    assert result.dtype == tensors[0].dtype
    wide = [t.float() for t in tensors]
    if BYPASS:
        ends = [in_rank_order(wide) / divisor] * 2
    else:
        exact = in_rank_order([t.double() for t in tensors])
        limit = (
            bound([t.float() for t in of or tensors]) + float(exact.abs().max()) * 2.0**-23
        )  # of the division
        ends = [(exact - limit) / divisor, (exact + limit) / divisor]
    low, high = (end.to(result.dtype).double() for end in ends)
    assert bool(((low <= result.double()) & (result.double() <= high)).all()), "wrongly rounded"


def gradient_types(switchml):
    """Sum halves, averages, and several tensors at once."""
    start()
    ops = [("SUM", 1), ("AVG", WORLD)] if AVERAGES else [("SUM", 1)]
    expected = 0
    for dtype in (*HALVES, torch.float32):
        for op, divisor in ops:
            how = getattr(dist.ReduceOp, op)
            inputs = everyone(3001, dtype, seed=expected)
            mine = inputs[RANK].clone()
            dist.all_reduce(mine, op=how)
            check_rounded(mine, inputs, divisor)
            columns = inputs[RANK][:3000].clone().view(3, 1000).t()
            dist.all_reduce(columns, op=how)
            check_rounded(columns.t().reshape(-1), [t[:3000] for t in inputs], divisor)
            several = [inputs[RANK].clone(), inputs[RANK][:600].clone().view(20, 30).t()]
            several.append(inputs[RANK][5].clone())
            dist.distributed_c10d.all_reduce_coalesced(several, op=how)
            check_rounded(several[0], inputs, divisor)
            check_rounded(several[1].t().reshape(-1), [t[:600] for t in inputs], divisor)
            check_rounded(several[2].view(1), [t[5:6] for t in inputs], divisor)
            expected += 3
            assert calls(switchml) == expected, switchml.report()
    several = [t.clone() for t in everyone(100, torch.int32)[:2]]
    total = [WORLD * t for t in several]
    dist.distributed_c10d.all_reduce_coalesced(several)
    assert all(torch.equal(a, b) for a, b in zip(several, total))
    same = everyone(2000, torch.int32)
    dist.distributed_c10d.all_reduce_coalesced([same[RANK], same[RANK]])
    assert torch.equal(same[RANK], in_rank_order(everyone(2000, torch.int32)))
    report = switchml.report()
    assert report["calls"] == expected + 2, report
    assert report["bytes"] == 4 * (expected // 3 * (3001 + 3000 + 3602) + 200 + 4000), report
    assert sum(report["fallbacks"].values()) == 0, report
    if AVERAGES:
        with contextlib.suppress(RuntimeError):  # of Gloo
            dist.all_reduce(torch.ones(3, dtype=torch.int32), op=dist.ReduceOp.AVG)
        assert switchml.report()["fallbacks"]["op"] == 1, switchml.report()


def halves_overflow(switchml):
    """A float16 sum that overflows is inf; inf and NaN arrive as NaN."""
    start()
    mine = torch.full((300,), 40000.0 if RANK < 2 else 0.0, dtype=torch.float16)
    dist.all_reduce(mine)
    assert bool(torch.isinf(mine).all()), mine
    for bad in (float("inf"), float("nan")):
        mine = torch.ones(300, dtype=torch.float16)
        mine[7] = bad if RANK == 0 else 1
        dist.all_reduce(mine)
        lost = torch.isnan(mine)
        assert bool(lost[7]), mine
        assert bool((mine[~lost] == WORLD).all()), mine
    assert calls(switchml) == 3, switchml.report()


def in_few_bits(tensors, bits, bucket):
    """Return the sum of float32 tensors that were quantized once, as documented."""
    scheme = quantize_model.Model(bits, len(tensors), bucket)
    rows = torch.stack(tensors).numpy()
    return torch.from_numpy(quantize_model.allreduce(scheme, rows, 1, key=0).values)


def quantized(switchml, bits, bucket, least, skip):
    """The group sums floats in few bits, but small tensors and integers unquantized."""
    start()
    lanes = 32 // (bits + (WORLD - 1).bit_length())
    sent = 0
    for numel in (least, 5 * bucket, 7 * bucket + 13):
        tensors = everyone(numel, torch.float32, seed=numel)
        mine = tensors[RANK].clone()
        dist.all_reduce(mine)
        whole = numel - numel % bucket if skip else numel
        expected = in_few_bits([t[:whole] for t in tensors], bits, bucket)
        assert torch.equal(mine[:whole], expected), (mine[:whole] - expected).abs().max()
        if whole < numel:
            check_sum(mine[whole:], [t[whole:] for t in tensors])
        buckets = [bucket] * (whole // bucket) + [whole % bucket] * bool(whole % bucket)
        sent += WORLD * len(buckets) + sum(-(-n // lanes) for n in buckets) + numel - whole
    assert switchml.report()["bytes"] == 4 * sent, (switchml.report(), 4 * sent)
    assert calls(switchml) == 3, switchml.report()

    halves = everyone(4 * bucket, torch.bfloat16, seed=3)
    mine = halves[RANK].clone()
    dist.all_reduce(mine)
    assert torch.equal(mine, in_few_bits([t.float() for t in halves], bits, bucket).bfloat16())

    allreduce_and_check(least - 1, torch.float32)
    allreduce_and_check(4 * bucket, torch.int32)

    mine = torch.ones(4 * bucket)
    mine[bucket + 1] = float("nan") if RANK == 0 else 1
    dist.all_reduce(mine)
    lost = torch.isnan(mine)
    assert lost[bucket : 2 * bucket].all(), "a bucket with NaN"
    assert int(lost.sum()) == bucket, "no other bucket"
    works = [torch.ones(4 * bucket) * (RANK + i) for i in range(20)]
    for work in [dist.all_reduce(t, async_op=True) for t in works]:
        work.wait()
    return finish(switchml, works=[float(t[0]) for t in works])


def narrowed(switchml):
    """The environment of this rank leaves types and operations to Gloo."""
    start()
    for dtype in (torch.float32, torch.float16, torch.int32):
        mine = torch.ones(10, dtype=dtype)
        dist.all_reduce(mine)
        assert bool((mine == WORLD).all())
    if AVERAGES:
        with contextlib.suppress(RuntimeError):  # of Gloo
            dist.all_reduce(torch.ones(10), op=dist.ReduceOp.AVG)


def groups(switchml):
    """A subgroup and a second group of all ranks stay with Gloo; the first group delegates on."""
    start()
    allreduce_and_check(1000, torch.float32)
    part = dist.new_group(list(range(WORLD - 1)))
    whole = dist.new_group(list(range(WORLD)))
    before = calls(switchml)
    if RANK < WORLD - 1:
        allreduce_and_check(
            1000, torch.float32, 1, group=part, ranks=list(range(WORLD - 1)), exact=False
        )
    allreduce_and_check(1000, torch.float32, 2, group=whole, exact=False)
    assert calls(switchml) == before, switchml.report()
    assert switchml.report()["fallbacks"]["group"] == (2 if RANK < WORLD - 1 else 1)
    allreduce_and_check(1000, torch.int32, 3)
    assert calls(switchml) == before + 1, switchml.report()


def second_group(switchml):
    """A second group of all ranks delegates, though some ranks have made other groups before."""
    start()
    dist.new_group([0])
    other = dist.new_group(list(range(WORLD)))
    for _ in range(2):
        allreduce_and_check(2000, torch.float32, 1, group=other)
        allreduce_and_check(2000, torch.float32, 2, exact=False)
    assert calls(switchml) == 2, switchml.report()
    assert switchml.report()["fallbacks"]["group"] == 2


def helped(switchml, port):
    """Start a process with the environment of the rank, as for checkpoints, which sums."""
    start()
    allreduce_and_check(1000, torch.float32)
    worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
    env = {**os.environ, "MASTER_PORT": str(port), "SWITCHML_TEST_ARGUMENTS": "{}"}
    helper = subprocess.run(
        [sys.executable, worker, "outcome"], env=env, capture_output=True, text=True, check=False
    )
    allreduce_and_check(1000, torch.float32, 1)
    return finish(switchml, code=helper.returncode, out=helper.stdout, err=helper.stderr)


def overlapping(switchml):
    """The first sum is asynchronous, while another rank waits for a message sent after it."""
    start()
    other = dist.new_group(list(range(WORLD)))
    tensor = torch.ones(2000)
    if RANK == 0:
        work = dist.all_reduce(tensor, group=other, async_op=True)
        dist.send(torch.ones(1), 1)
        work.wait()
    else:
        if RANK == 1:
            dist.recv(torch.ones(1), 0)
        dist.all_reduce(tensor, group=other)
    assert torch.equal(tensor, torch.full_like(tensor, WORLD))
    if RANK == 0:
        dist.destroy_process_group(other)  # before the other ranks
    allreduce_and_check(2000, torch.float32)
    assert calls(switchml) == 1, switchml.report()


def two_threads(switchml, rounds):
    """Use two groups of all ranks from two threads at the same time."""
    start()
    other = dist.new_group(list(range(WORLD)))
    errors = []

    def use(group, seed):
        try:
            for i in range(rounds):
                tensors = everyone(500 + i, torch.float32, seed + i)
                mine = [tensors[RANK].clone() for _ in range(3)]
                works = [dist.all_reduce(t, group=group, async_op=True) for t in mine]
                for work, result in zip(works, mine):
                    work.wait()
                    check_sum(result, tensors, exact=False)
        except Exception as error:
            errors.append(repr(error))

    threads = [
        threading.Thread(target=use, args=(default_group(), 100)),
        threading.Thread(target=use, args=(other, 300)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert calls(switchml) == 3 * rounds, switchml.report()
    assert switchml.report()["fallbacks"]["group"] == 3 * rounds, switchml.report()


def again(switchml, times, store):
    """Destroy and init again: the context stays, and the new group delegates."""
    for i in range(times):
        start(f"file://{store}/store-{i}")
        before = calls(switchml)
        allreduce_and_check(1000, torch.float32, i)
        assert calls(switchml) == before + 1, switchml.report()
        destroy()


def fit(parallel, steps, momentum=0.0):
    """Train on this rank's own data; return the losses."""
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05, momentum=momentum)
    generator = torch.Generator().manual_seed(RANK)
    losses = []
    for _ in range(steps):
        inputs = torch.randn(32, 64, generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(parallel(inputs), (inputs.sum(1) > 0).long())
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def train(switchml, steps):
    """Train with DistributedDataParallel; return the losses and the final weights."""
    start()
    torch.manual_seed(7)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )
    losses = fit(DistributedDataParallel(model, bucket_cap_mb=0.05), steps, momentum=0.9)
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    return finish(switchml, losses=losses, weights=weights.tolist())


def ends_in_use(switchml, held):
    """End the groups while a model and an unfinished allreduce still use them."""
    start()
    parallel = DistributedDataParallel(torch.nn.Linear(2, 2))
    dist.all_reduce(torch.ones(4_000_000, dtype=torch.float64), async_op=True)  # by Gloo
    if held:
        return finish(switchml)
    dist.destroy_process_group()
    return {"parameters": len([*parallel.parameters()])}


def ends_while_waiting(switchml, fails):
    """Rank 0 ends, or fails, while one of its threads waits for a sum that rank 1 never calls."""
    start()
    allreduce_and_check(1000, torch.float32)
    if RANK == 1:
        limit = time.monotonic() + 100
        with contextlib.suppress(RuntimeError):  # the Store ends with rank 0
            dist.distributed_c10d._get_default_store().wait(["never"], dt.timedelta(seconds=100))
        os._exit(int(time.monotonic() >= limit))
    threading.Thread(target=dist.all_reduce, args=[torch.ones(5)], daemon=True).start()
    time.sleep(1)
    if fails:
        raise ValueError("its own")
    return {}


def outcome(switchml):
    """Make a group, and sum once."""
    start()
    allreduce_and_check(1000, torch.float32, exact=False)
    allreduce_and_check(1000, torch.int32, exact=True)


def dies(switchml, victim):
    """Kill a rank between two allreduces: the others get an exception in time."""
    start()
    allreduce_and_check(1000, torch.float32)
    store = dist.distributed_c10d._get_default_store()
    if victim == RANK:  # its aggregator may still be sending sums to the others
        for rank in {*range(WORLD)} - {victim}:  # in turn, because torch 1.7.1 may miss a message
            store.wait([f"has {rank}"])
        os.kill(os.getpid(), signal.SIGKILL)
    store.set(f"has {RANK}", "its sum")
    return failing_allreduce(switchml)


def outlives(switchml, switch, rounds, dies, bits=None, number=signal.SIGKILL):
    """Train while the switch dies, with several sums of all kinds in flight.

    Args:
        switch: process of the switch.
        dies: round in which the switch gets a signal, some milliseconds after the round begins.
        bits: bits of a float that is sent; None for no quantization.
        number: number of the signal.
    """
    start()
    torch.manual_seed(5)
    parallel = DistributedDataParallel(torch.nn.Linear(40, 30))
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    kinds = [(dtype, "SUM") for dtype in (torch.float32, torch.int32, *HALVES)]
    kinds += [(torch.float32, "AVG"), (torch.bfloat16, "AVG")] if AVERAGES and not bits else []
    for step in range(rounds):
        if RANK == 0 and step == dies:
            threading.Timer(step % 7 / 1000, os.kill, (switch, number)).start()
        pending = []
        for k, (dtype, op) in enumerate(kinds):
            tensors = everyone(512 + 4000 * k, dtype, seed=10 * step + k)
            mine = tensors[RANK].clone()
            work = dist.all_reduce(mine, op=getattr(dist.ReduceOp, op), async_op=True)
            pending.append((work, mine, tensors, WORLD if op == "AVG" else 1))
        tensors = everyone(9000, torch.float32, seed=10 * step + 9)
        mine = tensors[RANK].clone()
        several = [*mine.split([100, 5000, 3900])]
        work = dist.distributed_c10d.all_reduce_coalesced(several, async_op=True)
        pending.append((work, mine, tensors, 1))
        for work, mine, tensors, divisor in pending:
            work.wait()
            check_any_sum(mine, tensors, divisor, bits)
            check_same(mine)
        if BACKEND == "switchml" and not bits:
            scatter_and_check(step)
        optimizer.zero_grad()
        parallel(values(RANK, 400, torch.float32, step).view(10, 40)).square().sum().backward()
        optimizer.step()
    for parameter in parallel.parameters():
        assert torch.isfinite(parameter).all()
        check_same(parameter.detach())


def scatter_and_check(seed):
    """Scatter sums over the ranks: one alone, then two at once if torch coalesces them."""
    inputs = [everyone(WORLD * numel, torch.float32, seed) for numel in (4000, 2500, 1700)]
    parts = [torch.empty(len(tensors[0]) // WORLD) for tensors in inputs]
    together = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 1)
    dist.reduce_scatter_tensor(parts[0], inputs[0][RANK].clone())
    with dist._coalescing_manager() if together else contextlib.nullcontext():
        for part, tensors in zip(parts[1:], inputs[1:]):
            dist.reduce_scatter_tensor(part, tensors[RANK].clone())
    whole = [torch.cat(of_rank) for of_rank in zip(*inputs)]
    for part, tensors in zip(parts, inputs):
        check_rounded(part, [t.chunk(WORLD)[RANK] for t in tensors], of=whole)


def returns(switchml, switch, address, store, number=signal.SIGKILL):
    """Sum over Gloo while the switch is away, then through the switch; a new group does the same.

    Args:
        switch: process of the switch, which gets a signal, and then is restarted or continued.
        address: address where the switch listens.
        number: number of the signal.
    """
    started = []
    for group in range(2):
        start(f"file://{store}/store-{group}")
        before = calls(switchml)
        flight_of_sums(4, group)
        assert calls(switchml) == before + 16, switchml.report()
        dist.barrier()
        if RANK == 0:
            command = arguments_of(switch, address)
            os.kill(switch, number)
        flight_of_sums(8, 10 + group)
        assert switchml.report()["failover"]["failovers"] == group + 1, switchml.report()
        if RANK == 0 and number == signal.SIGKILL:
            started.append(subprocess.Popen(command))
            switch = started[-1].pid
        elif RANK == 0:
            os.kill(switch, signal.SIGCONT)
        if group == 0:
            before = calls(switchml)
            for turn in range(60):  # all ranks return to the switch at the same call
                flight_of_sums(4, 20 + turn)
                if switchml.report()["failover"]["returns"]:
                    break
            flight_of_sums(1, 90)
            report = switchml.report()
            assert (report["delegating"], report["failover"]["returns"]) == (True, 1), report
            assert calls(switchml) >= before + 4, report
        destroy()
    start(f"file://{store}/store-2")
    before = calls(switchml)
    flight_of_sums(4, 95)
    assert calls(switchml) == before + 16, switchml.report()
    result = finish(switchml)
    for process in started:
        process.kill()
    return result


def arguments_of(process, address):
    """Return the arguments of a process, to start it again with a fixed address."""
    with open(f"/proc/{process}/cmdline", "rb") as file:
        words = os.fsdecode(file.read()).split("\0")[:-1]
    program = os.path.realpath(f"/proc/{process}/exe")
    return [program] + [
        "--listen=" + address if word.startswith("--listen=") else word for word in words[1:]
    ]


def breaks(switchml, victim, command, goes_on):
    """Let a rank break something, and return the results of the later sums of all ranks.

    Args:
        command: command that the rank runs, or the port whose connections it breaks.
    """
    start()
    flight_of_sums(2, 0)
    dist.barrier()
    begun = time.monotonic()
    if victim == RANK and isinstance(command, int):
        break_connections(command)
    elif victim == RANK:
        subprocess.run(command, check=True)
    if not goes_on:
        return failing_allreduce(switchml)
    dist.all_reduce(torch.ones(1000))
    elapsed = time.monotonic() - begun
    flight_of_sums(4, 10)
    dist.barrier()
    return finish(switchml, elapsed=elapsed)


def break_connections(port):
    """Break this process's connections to a port, like an unplugged cable."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as connection:
            if connection.getpeername()[1] == port:
                connection.shutdown(socket.SHUT_RDWR)


def flight_of_sums(rounds, seed):
    """Check four concurrent sums in each round, on all ranks."""
    for number in range(rounds):
        pending = []
        for k, dtype in enumerate((torch.float32, torch.int32, torch.float32, torch.bfloat16)):
            tensors = everyone(300 + 4000 * k, dtype, seed=100 * seed + 4 * number + k)
            mine = tensors[RANK].clone()
            pending.append((dist.all_reduce(mine, async_op=True), mine, tensors))
        for work, mine, tensors in pending:
            work.wait()
            check_any_sum(mine, tensors, 1, None)
            check_same(mine)


def check_any_sum(result, tensors, divisor, bits):
    if bits and result.dtype != torch.int32:
        expected = in_few_bits([t.float() for t in tensors], bits, 512)
        assert torch.equal(result, expected.to(result.dtype)), "not the sum in fewer bits"
    elif divisor == 1 and result.dtype not in HALVES:
        check_sum(result, tensors)
    else:
        check_rounded(result, tensors, divisor)


def check_same(tensor):
    """Check that a tensor has the same bits on all ranks."""
    tensor = tensor.float() if tensor.dtype in HALVES else tensor  # which not every Gloo gathers
    others = [torch.empty_like(tensor) for _ in range(WORLD)]
    dist.all_gather(others, tensor)
    assert all(torch.equal(tensor, other) for other in others), "ranks have other sums"


def tell(answer):
    """Let the ranks continue that wait for this rank."""
    with open("told", "x", encoding="ascii"):
        return answer


def wait_for(rank):
    while not os.path.exists(os.path.join(os.pardir, str(rank), "told")):
        time.sleep(0.01)


def late(switchml, victim):
    """Leave out one rank: the others get an exception after the group's timeout."""
    start()
    allreduce_and_check(1000, torch.float32)
    if victim == RANK:
        for rank in {*range(WORLD)} - {victim}:
            wait_for(rank)
        os._exit(0)
    return tell(failing_allreduce(switchml))


def await_failover(switchml):
    """Wait until this rank knows that another one has waited for longer than its limit."""
    while switchml.report()["failover"]["failovers"] == 0:
        time.sleep(0.01)


def tardy(switchml, victim, more=0, pages="", *, impatient=False):
    """One rank is later than the limit of a sum, so the ranks continue over Gloo.

    Args:
        impatient: a receive has timed out before, so Gloo has closed its connections.
        more: number of sums after which the ranks are back at the switch. Then as many again, whose
            packets are counted.
        pages: directory of the ranks' metrics; this rank's are part of the result.
    """
    start()
    allreduce_and_check(1000, torch.float32)
    if impatient:
        receive = dist.irecv(torch.ones(1), (RANK + 1) % WORLD)
        assert raised(receive.wait, dt.timedelta(seconds=1))
        assert raised(dist.barrier)
    if victim == RANK:
        await_failover(switchml)
    for seed in range(3):
        allreduce_and_check(1000, torch.float32, seed)
    page = page_over_gloo(pages, 3) if pages else None
    for seed in range(more):
        allreduce_and_check(1000, torch.float32, seed)
    before = switchml.report()["packets"]
    for seed in range(more):
        allreduce_and_check(1000, torch.float32, seed)
    after = switchml.report()["packets"]
    if not impatient:
        dist.barrier()
    packets = {name: after[name] - before[name] for name in after}
    return dict(finish(switchml), packets=packets, page=page)


def steady(switchml, stop, numel, pause):
    """Sums until there is a file: ten times float32, then float64, which stays with Gloo.

    Args:
        stop: the file; all ranks end after the same sum.
        pause: seconds between two sums.
    """
    start()
    ends = torch.zeros(1, dtype=torch.float64)
    tensors = everyone(numel, torch.float32)
    while not ends:
        for _ in range(10):
            mine = tensors[RANK].clone()
            dist.all_reduce(mine)
            check_sum(mine, tensors)
            time.sleep(pause)
        ends[0] = os.path.exists(stop)
        dist.all_reduce(ends)


def halves(switchml, victim, numel, command):
    """A rank ends or stops over Gloo while its messages are half sent."""
    start()
    allreduce_and_check(1000, torch.float32)
    if victim == RANK:
        await_failover(switchml)
    allreduce_and_check(1000, torch.int32)
    tensor = torch.ones(numel)
    if victim == RANK:
        breaking = subprocess.Popen(["sh", "-c", f"sleep 0.5; {command}"])
    begun = time.monotonic()
    why = next(filter(None, (raised(dist.all_reduce, tensor) for _ in range(20))), None)
    elapsed = time.monotonic() - begun
    if "CONT" in command:
        tell(breaking.wait()) if victim == RANK else wait_for(victim)
        check_same(torch.ones(1000))
        time.sleep(3)
        begun = time.process_time()
        time.sleep(2)
        assert BACKEND == "switchml" or time.process_time() - begun < 1, "a thread of Gloo spins"
    return finish(switchml, why=why, elapsed=elapsed)


def page_over_gloo(directory, calls):
    """Return the metrics of this rank once they count this many allreduces after a failure."""
    while True:
        for name in os.listdir(directory):
            if name.endswith(f"-{RANK}-{os.getpid()}.prom"):
                with open(os.path.join(directory, name)) as file:
                    page = file.read()
                if re.search(rf"(?m)^switchml_failover_allreduces_total.* {calls}$", page):
                    return page
        time.sleep(0.05)


def overdue(switchml, numel, store, late):
    """Sum twice what takes longer than the timeout: late answers reach neither memory nor a sum.

    Without failover a new group sums; with failover these ranks go on, and return to the switch.
    """
    sentinel, kept = -7.5, []
    start(f"file://{store}/store-0")
    goes_on = "SWITCHML_FAILOVER" in os.environ
    for turn in range(2):
        mine = torch.ones(numel)
        why = raised(dist.all_reduce, mine)
        if goes_on:
            assert why is None, why
            assert bool((mine == WORLD).all())
        else:
            assert late in str(why), why
        kept.append(mine.fill_(sentinel))
        time.sleep(1)  # until the late answers have come
        assert all(bool((tensor == sentinel).all()) for tensor in kept), "a late write"
        if not goes_on:
            destroy()
            start(f"file://{store}/store-{turn + 1}")
        before = calls(switchml)
        for seed in range(70 if goes_on else 8):
            allreduce_and_check(300, torch.float32, seed)
            allreduce_and_check(300, torch.int32, seed)
        assert calls(switchml) >= before + 16, switchml.report()
    assert all(bool((tensor == sentinel).all()) for tensor in kept), "a late write"


def dropped(switchml, victim):
    """Deny a rank the memory for a row: none of its later sums is SwitchML's."""
    start()
    allreduce_and_check(1000, torch.float32)
    dist.barrier()  # all have their sums
    tensor = torch.ones(1, 1 << 24).expand(2, -1)  # both rows share memory
    if victim == RANK:
        with open("/proc/self/statm") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 26), limits[1]))
    lacking = raised(dist.all_reduce, tensor)
    if victim == RANK:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    return dict(failing_allreduce(switchml), lacking=lacking)


def raised(call, *arguments, kind=RuntimeError, **keywords):
    """Return the message of the exception of a call, or None."""
    try:
        call(*arguments, **keywords)
    except kind as error:
        return str(error)
    return None


def failing_allreduce(switchml):
    """Run two allreduces, of which the first may fail, and end the group as a program would.

    In a process that ends with a group, a thread of Gloo may free a tensor just then and abort.
    """
    begun = time.monotonic()
    tensor = torch.ones(1000)
    first = raised(dist.all_reduce, tensor)
    if first is None:
        return finish(switchml, first=None)
    elapsed = time.monotonic() - begun
    begun = time.monotonic()
    second = raised(dist.all_reduce, tensor)
    second_elapsed = time.monotonic() - begun
    return finish(
        switchml, first=first, elapsed=elapsed, second=second, second_elapsed=second_elapsed
    )


def mismatch(switchml):
    """The ranks pass different numbers of elements: an exception on every rank, no sum."""
    start()
    allreduce_and_check(1000, torch.float32)
    return finish(switchml, first=raised(dist.all_reduce, torch.ones(1000 + RANK)))


def minimum(switchml):
    start()
    allreduce_and_check(99, torch.float32, exact=False)
    assert calls(switchml) == 0, switchml.report()
    allreduce_and_check(100, torch.float32)
    assert calls(switchml) == 1, switchml.report()


def refused(switchml):
    """Return the message of the exception of a group that may not be made."""
    return {"error": raised(start)}


def same_values(switchml, times, store):
    """Sum equal values, which the dummy backend sums by a multiplication, in several groups."""
    for i in range(times):
        start(f"file://{store}/store-{i}")
        floats = torch.full((100_003,), 1.5)
        dist.all_reduce(floats)
        assert torch.allclose(floats, torch.full((100_003,), 1.5 * WORLD))
        ints = torch.full((1,), 7, dtype=torch.int32)
        dist.all_reduce(ints)
        assert int(ints) == 7 * WORLD
        result = finish(switchml)
        HELD.clear()  # this group ends before the next one is made
    assert result["report"]["calls"] == 2 * times, result
    return result


def time_allreduce(switchml, numel, concurrent, rounds, dtype, *, copied=False):
    """Return the seconds of an allreduce, after one round of warm-up.

    With `copied`, those of an allreduce and of a copy of its sum.
    """
    start()
    tensors = [torch.ones(numel, dtype=getattr(torch, dtype)) for _ in range(concurrent)]
    copies = [torch.empty_like(tensor) for tensor in tensors] if copied else []

    def once():
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in works:
            work.wait()
        for copy, tensor in zip(copies, tensors):
            copy.copy_(tensor)

    once()
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(rounds):
        once()
    seconds = (time.perf_counter() - begun) / (rounds * concurrent)
    return finish(switchml, seconds=seconds)


def nonfinite(switchml):
    """Sum values that fixed point cannot represent: no rank gets a finite number."""
    start()
    answers = []
    for value in (float("inf"), float("-inf"), float("nan"), 3e38):
        tensor = torch.ones(100_003)
        if RANK == WORLD - 1:
            tensor[70_000] = value
        dist.all_reduce(tensor)
        assert WORLD == 1 or float(tensor[0]) == WORLD, "another packet is not touched"
        answers.append(math.isfinite(float(tensor[70_000])))
    return finish(switchml, finite=answers)
