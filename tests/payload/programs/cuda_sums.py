"""Sums of CUDA tensors, checked by each rank; the ranks may share one GPU.

The argument is a backend: `switchml` with the plugin, `gloo` with a patch, a graft, or the plugin
under SWITCHML_FOR_GLOO=1. From PyTorch 1.10 on, torch.distributed.run starts the ranks; before,
torch.distributed.launch --use_env. CASES names some of the functions below, such as
"each_type,order_of_streams".
"""

import datetime as dt
import importlib.util
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

BACKEND = sys.argv[-1]
CASES = [name for name in os.environ.get("CASES", "").split(",") if name]
PLUGIN = importlib.util.find_spec("torch_switchml") is not None
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MODERN = hasattr(dist, "all_gather_into_tensor")
CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", RANK % torch.cuda.device_count()) if CUDA else torch.device("cpu")
SIZES = [1, 1000, 65_537, 1_000_003, 16 * 2**20 + 5]


def values(numel, seed, rank=RANK, dtype=torch.float32):
    """Return small integers, whose sums every type and the fixed point represent exactly."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(-8, 9, (numel,), generator=generator).to(dtype)


def total(numel, seed, dtype=torch.float32):
    return sum(values(numel, seed, rank).double() for rank in range(WORLD)).to(dtype)


def check(tensor, wanted, what):
    found = tensor.cpu()
    if not torch.equal(found, wanted):
        wrong = (found != wanted).sum().item()
        raise AssertionError(f"{what}: {wrong} of {wanted.numel()} elements are wrong")


def delay(milliseconds):
    """Keep the current stream busy."""
    if CUDA and MODERN:  # needs a kernel of this GPU
        torch.cuda._sleep(int(milliseconds * 1.5e6))


def streams(count):
    return [torch.cuda.Stream() if CUDA else None for _ in range(count)]


def delegated():
    if PLUGIN:
        from torch_switchml import report as made
    else:
        from torch.distributed.switchml import report as made
    report = made()
    assert not report["failure"], report["failure"]
    return report["calls"] + report["failover"]["calls"]


def each_type():
    for dtype in [torch.float32, torch.int32] + [torch.bfloat16, torch.float16] * MODERN:
        for numel in SIZES:
            tensor = values(numel, numel, dtype=dtype).to(DEVICE)
            dist.all_reduce(tensor)
            check(tensor, total(numel, numel, dtype), f"{dtype}, {numel} elements")


def strides():
    tensor = values(600 * 700, 3).to(DEVICE).view(600, 700).t()
    dist.all_reduce(tensor)
    check(tensor.contiguous().view(-1), total(420_000, 3).view(600, 700).t().reshape(-1), "strides")
    whole = values(2 * 10_001, 4).to(DEVICE)
    dist.all_reduce(whole[1::2])
    wanted = values(20_002, 4)
    wanted[1::2] = total(20_002, 4)[1::2]
    check(whole, wanted, "a view")


def order_of_streams():
    """A sum runs after earlier work of its stream, and before later work."""
    for turn in range(10):
        numel = SIZES[turn % 4]
        stream, target = streams(1)[0], torch.empty(numel, device=DEVICE)
        zeros = torch.zeros(numel).pin_memory()
        torch.cuda.synchronize()
        host = values(numel, turn).pin_memory()
        with torch.cuda.stream(stream):
            delay(20)
            target.copy_(host, non_blocking=True)
            work = dist.all_reduce(target, async_op=True)
            work.wait()
            copy = torch.empty(numel, pin_memory=True)
            copy.copy_(target, non_blocking=True)
            target.copy_(zeros, non_blocking=True)
        stream.synchronize()
        check(copy, total(numel, turn), f"stream, turn {turn}")


def many_in_flight():
    for turn in range(5):
        started = []
        for index, stream in enumerate(streams(4) * 8):
            numel = 1 + 9973 * ((index * 7 + turn) % 23)
            with torch.cuda.stream(stream):
                delay(index % 3)
                tensor = values(numel, 50 * turn + index).pin_memory().to(DEVICE, non_blocking=True)
                started.append((numel, 50 * turn + index, tensor, stream,
                                dist.all_reduce(tensor, async_op=True)))  # fmt: skip
        for numel, seed, tensor, stream, work in reversed(started):
            with torch.cuda.stream(stream):
                work.wait()
                check(tensor, total(numel, seed), f"in flight, {numel} elements")


def freed_memory():
    """Memory of an unreferenced tensor is not reused while it is summed."""
    for turn in range(20):
        works, others = [], []
        for index in range(8):
            tensor = values(300_001, index).pin_memory().to(DEVICE, non_blocking=True)
            works.append(dist.all_reduce(tensor, async_op=True))
            del tensor
            others.append(values(300_001, 99 + index).pin_memory().to(DEVICE, non_blocking=True))
        for work in works:
            work.wait()
        torch.cuda.synchronize()
        for index, other in enumerate(others):
            check(other, values(300_001, 99 + index), f"memory of another tensor, turn {turn}")


def averages():
    tensor = (values(1_000_003, 5) * WORLD).to(DEVICE)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    check(tensor, total(1_000_003, 5), "average")


def reduce_scatter():
    for dtype in (torch.float32, torch.bfloat16):
        whole = values(WORLD * 100_001, 6, dtype=dtype).to(DEVICE)
        part = torch.empty(100_001, dtype=dtype, device=DEVICE)
        dist.reduce_scatter_tensor(part, whole)
        wanted = total(WORLD * 100_001, 6, dtype)[RANK * 100_001 : (RANK + 1) * 100_001]
        check(part, wanted, f"reduce-scatter, {dtype}")


def graphs():
    """A capture refuses an allreduce, and sums go on after it."""
    tensor = values(1000, 7).to(DEVICE)
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            dist.all_reduce(tensor)
    except RuntimeError as error:
        print(f"rank {RANK}: capture: {str(error).splitlines()[0]}", flush=True)
    else:
        raise AssertionError("a capture took an allreduce")
    dist.all_reduce(tensor)
    check(tensor, total(1000, 7), "after a capture")


def training(wrap):
    """Train on this rank's share; return the largest difference from training on all data."""

    def network():
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
            torch.nn.Linear(512, 10),
        ).to(DEVICE)  # fmt: skip

    alone, model = network(), network()
    wrapped = wrap(model)
    optimizers = [torch.optim.SGD(module.parameters(), 0.05) for module in (alone, wrapped)]
    for step in range(10):
        batch = torch.randn(8 * WORLD, 64, generator=torch.Generator().manual_seed(step)).to(DEVICE)
        for module, rows, optimizer in (
            (alone, batch, optimizers[0]),
            (wrapped, batch[RANK::WORLD], optimizers[1]),
        ):
            optimizer.zero_grad()
            module(rows).square().mean().backward()
            optimizer.step()
    pairs = [
        (ours.to_local(), wanted.chunk(WORLD)[RANK])
        if hasattr(ours, "to_local")
        else (ours, wanted)
        for ours, wanted in zip(wrapped.parameters(), alone.parameters())
    ]
    return max((ours - wanted).abs().max().item() for ours, wanted in pairs)


def check_training(wrap, allowed, what):
    before = delegated()
    difference = training(wrap)
    assert difference < allowed, f"{what}: parameters differ by {difference}"
    assert delegated() > before, f"{what}: nothing was delegated"


def parallel(model):
    return torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.5)


def data_parallel():
    check_training(parallel, 1e-4, "DistributedDataParallel")


def fully_sharded():
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    mesh = DeviceMesh.from_group(dist.group.WORLD, DEVICE.type)

    def wrap(model):
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    check_training(wrap, 1e-4, "fully_shard")


def quantized():
    import torch_switchml

    def wrap(model):
        wrapped = parallel(model)
        state = torch_switchml.QuantizedState(bits=8, error_feedback=True, model=wrapped)
        wrapped.register_comm_hook(state, torch_switchml.quantized_hook)
        return wrapped

    check_training(wrap, 3e-2, "quantized_hook")


def hierarchical():
    import torch_switchml

    def wrap(model):
        wrapped = parallel(model)
        state = torch_switchml.HierarchicalState(local_size=1, local_backend="gloo")
        wrapped.register_comm_hook(state, torch_switchml.hierarchical_hook)
        return wrapped

    check_training(wrap, 1e-4, "hierarchical_hook")


def functional():
    import torch.distributed._functional_collectives as functional

    tensor = values(50_001, 8).to(DEVICE)
    result = functional.all_reduce(tensor, "sum", dist.group.WORLD)
    check(result + 0, total(50_001, 8), "functional")


def compiled():
    import torch.distributed._functional_collectives as functional

    @torch.compile
    def step(tensor):
        return functional.all_reduce(tensor * 2, "sum", dist.group.WORLD) + 1

    result = step(values(50_001, 9).to(DEVICE))
    check(result, 2 * total(50_001, 9) + 1, "torch.compile")


def outlives():
    """Kill the switch, process AGGREGATOR; SWITCHML_FAILOVER=1 lets the ranks go on."""
    for turn in range(12):
        started = []
        for index in range(5):
            tensor = values(1_000_003, index).pin_memory().to(DEVICE, non_blocking=True)
            started.append((index, tensor, dist.all_reduce(tensor, async_op=True)))
        if turn == 4 and RANK == 0:
            os.kill(int(os.environ["AGGREGATOR"]), signal.SIGKILL)
        for index, tensor, work in started:
            work.wait()
            check(tensor, total(1_000_003, index), f"turn {turn}")


def abort():
    """Abort sums in flight, and make a new group."""
    works = []
    for index in range(4):
        delay(100)
        works.append(dist.all_reduce(values(1_000_003, index).to(DEVICE), async_op=True))
    dist.group.WORLD.abort()
    failed = 0
    for work in works:
        try:
            work.wait()
        except RuntimeError:
            failed += 1
    torch.cuda.synchronize()
    print(f"rank {RANK}: abort: {failed} of 4 calls failed", flush=True)
    dist.destroy_process_group()
    os.environ["SWITCHML_REQUIRE"] = "0"  # the simulator does not start twice
    join()
    tensor = values(1000, 11).to(DEVICE)
    dist.all_reduce(tensor)
    check(tensor, total(1000, 11), "after an abort")


def long():
    """Sum random sizes and types on random streams, with random waits."""
    import random

    choose = random.Random(12)
    pool, started = streams(3), []
    end = time.monotonic() + float(os.environ.get("SECONDS_LONG", "8"))
    for turn in range(10**9):
        over = torch.tensor([float(time.monotonic() > end)])
        if turn % 50 == 0:
            dist.all_reduce(over)
            if over.item():
                break
        numel = choose.choice([1, 17, 4096, 65_536, 65_537, 300_000, 2_000_000])
        dtype = choose.choice([torch.float32, torch.int32] + [torch.bfloat16] * MODERN)
        stream = choose.choice(pool)
        with torch.cuda.stream(stream):
            delay(choose.choice([0, 0, 1]))
            tensor = values(numel, turn, dtype=dtype).pin_memory().to(DEVICE, non_blocking=True)
            work = dist.all_reduce(tensor, async_op=True)
            started.append((numel, turn, dtype, tensor, stream, work))
        while len(started) > choose.choice([0, 3, 8]):
            numel, seed, dtype, tensor, stream, work = started.pop(choose.randrange(len(started)))
            with torch.cuda.stream(stream):
                work.wait()
                check(tensor, total(numel, seed, dtype), f"turn {seed}")
    for *_, work in started:
        work.wait()
    print(f"rank {RANK}: long: {turn} sums", flush=True)


def times():
    """Return milliseconds of an allreduce of 64 MiB, beside Gloo and the copies alone."""
    stock = dist.new_group(backend="gloo") if PLUGIN else None
    tensor = torch.zeros(16 * 2**20).to(DEVICE)
    host = torch.zeros(16 * 2**20, pin_memory=True)

    def copies():
        host.copy_(tensor)
        tensor.copy_(host)

    ways = {BACKEND: lambda: dist.all_reduce(tensor), "copies": copies}
    if stock is not None:
        ways["gloo"] = lambda: dist.all_reduce(tensor, group=stock)
    taken = {name: [] for name in ways}
    for _ in range(7):
        for name, way in ways.items():
            torch.cuda.synchronize()
            dist.barrier()
            begun = time.perf_counter()
            way()
            torch.cuda.synchronize()
            taken[name].append(1e3 * (time.perf_counter() - begun))
    if RANK == 0:
        medians = {name: round(sorted(several)[3], 1) for name, several in taken.items()}
        print(f"64 MiB, milliseconds: {medians}", flush=True)


ALL = [each_type, order_of_streams, many_in_flight, freed_memory, long, times]
if MODERN:
    ALL += [strides, averages]
if PLUGIN:
    ALL += [reduce_scatter, graphs, data_parallel, fully_sharded, quantized, functional, compiled]
    ALL += [abort]


def join():
    dist.init_process_group(BACKEND, timeout=dt.timedelta(seconds=60))


def main():
    if PLUGIN:
        import torch_switchml  # noqa: F401
    if CUDA:
        torch.cuda.set_device(DEVICE)
    join()
    for case in [globals()[name] for name in CASES] or ALL:
        before, begun = delegated(), time.monotonic()
        case()
        if RANK == 0:
            calls, seconds = delegated() - before, time.monotonic() - begun
            print(f"{case.__name__}: right, {calls} delegated, {seconds:.1f} s", flush=True)
    if CUDA and RANK == 0:
        print(
            f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {WORLD} ranks", flush=True
        )
    dist.destroy_process_group()


main()
