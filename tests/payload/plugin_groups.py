"""Cases of groups that torch makes from another group, and of its flight recorder."""

import datetime as dt
import importlib
import pickle
import threading
import types
import warnings

import torch
import torch.distributed as dist
from cases import (
    RANK,
    TIMEOUT,
    WORLD,
    allreduce_and_check,
    calls,
    default_group,
    finish,
    raised,
    start,
)
from torch.distributed import distributed_c10d as c10d
from torch.distributed.algorithms import ddp_comm_hooks
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.nn import functional
from torch.nn.parallel import DistributedDataParallel


def summed(of, group=None):
    """Check sums of two types, one of which is Gloo's."""
    allreduce_and_check(100, torch.float32, group=group, ranks=of)
    allreduce_and_check(100, torch.float64, group=group, ranks=of, exact=False)


def logged(switchml, backend):
    """Train by DistributedDataParallel, and look at its log. The group keeps its type."""
    start(backend=backend)
    group = default_group()
    name = group.name()
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    assert group.name() == name
    assert model._get_ddp_logging_data().get("gloo_num_threads", 2) == 2, "as Gloo's class"
    model(torch.ones(1, 2)).sum().backward()


def split(switchml, *, busy):
    """Split off a part, and the whole; the split group delegates or has ended."""
    start()
    parent = default_group()
    if not busy:
        parent._get_backend(torch.device("cpu")).shutdown()
    before = switchml.report()
    whole = dist.split_group(split_ranks=[[*range(WORLD)]])
    backend = whole._get_backend(torch.device("cpu"))
    assert (backend.name(), backend.size()) == ("switchml", WORLD)
    group_line = switchml.report()["group"]
    summed([*range(WORLD)], whole)
    after = switchml.report()
    counted = (
        after["calls"] - before["calls"],
        after["fallbacks"]["group"] - before["fallbacks"]["group"],
    )
    return finish(switchml, group=group_line, counted=counted)


def split_required(switchml):
    """Split off no part that cannot delegate, if SwitchML is required."""
    start()
    default_group()._get_backend(torch.device("cpu")).shutdown()
    error = raised(dist.split_group, None, [[0, 1], [2, 3]]) or "none was raised"
    store = c10d._get_default_store()
    store.set(f"told {RANK}", error)
    if RANK == 0:  # serves the store, which the others may still use
        store.wait([f"told {rank}" for rank in range(WORLD)])
    return finish(switchml, error=error)


def split_and_ended(switchml):
    """End a group while Gloo's threads still have tensors that Python has made."""
    start()
    part = dist.split_group(split_ranks=[[*range(WORLD)]])
    for _ in range(100):
        dist.all_reduce(torch.ones(20_000, dtype=torch.float64), group=part, async_op=True)
    del part
    dist.destroy_process_group()
    return {"report": switchml.report()}


def merged(switchml, store):
    """Merge ranks that find each other in a store."""
    limit = dt.timedelta(seconds=TIMEOUT)
    dist.init_process_group("cpu:switchml", timeout=limit)  # torch 2.13 merges for each device
    default_group()._get_backend(torch.device("cpu")).shutdown()
    place = dist.FileStore(f"{store}/merged", WORLD)
    if RANK == 1:
        place.wait(["mergeGroupRank"])  # ranks are numbered in order of arrival
    group = default_group().merge_remote_group(place, WORLD, limit)
    before = calls(switchml)
    tensor = torch.full((100,), float(RANK))
    group.allreduce([tensor]).wait()
    assert torch.equal(tensor, torch.full_like(tensor, WORLD * (WORLD - 1) / 2))
    assert group._get_backend(torch.device("cpu")).name() == "switchml"
    counted = calls(switchml) - before
    del group
    return finish(switchml, counted=counted)


def subgroup_of_a_device(switchml):
    """Ranks that are not in a part of the group take part in the split."""
    limit = dt.timedelta(seconds=TIMEOUT)
    dist.init_process_group("switchml", timeout=limit, device_id=torch.device("cpu", 0))
    group = dist.new_group([0, 1])
    if RANK < 2:
        summed([0, 1], group)


def reconfigured(switchml):
    """Reconfigure four ranks to two pairs, then to all four again."""
    start()
    summed([*range(WORLD)])
    handles = [None] * WORLD
    dist.all_gather_object(handles, c10d._get_reconfigure_handle())
    first = RANK // 2 * 2
    c10d._reconfigure(7 + first, handles[first : first + 2]).wait()
    assert (dist.get_rank(), dist.get_world_size()) == (RANK - first, 2)
    summed([first, first + 1])
    pairs = switchml.report()
    store = c10d._get_default_store()
    store.set(f"handle{RANK}", c10d._get_reconfigure_handle())
    places = [store.get(f"handle{rank}").decode() for rank in range(WORLD)]
    c10d._reconfigure(99, places).wait()
    assert (dist.get_rank(), dist.get_world_size()) == (RANK, WORLD)
    before = calls(switchml)
    summed([*range(WORLD)])
    return finish(switchml, pairs=pairs, again=calls(switchml) - before)


def reconfigured_first(switchml):
    """Reconfigure a group that has no ranks before."""
    limit = dt.timedelta(seconds=TIMEOUT)
    dist.init_process_group("switchml", timeout=limit, enable_reconfigure=True)
    assert switchml.report()["group"] == ""
    assert "reconfigure" in str(raised(dist.all_reduce, torch.ones(1)))
    store = c10d._get_default_store()
    store.set(f"handle{RANK}", c10d._get_reconfigure_handle())
    handles = [store.get(f"handle{rank}").decode() for rank in range(WORLD)]
    c10d._reconfigure(1, handles).wait()
    summed([*range(WORLD)])
    assert calls(switchml) == 1


def dumped():
    """Return entries of the default dump of the flight recorder."""
    return pickle.loads(torch._C._distributed_c10d._dump_fr_trace())["entries"]  # noqa: S301  # ours


def analyzed(entries):
    """Return what torch's analysis finds in the entries of all ranks, one for each call."""
    builder = importlib.import_module("torch.distributed.flight_recorder.components.builder")
    ranks = [None] * WORLD
    dist.all_gather_object(ranks, entries)
    config = {  # Gloo records the ranks of a group before the group has a name
        name: {"desc": description, "ranks": str([*range(WORLD)])}
        for name, description in (entry["process_group"] for entry in entries)
    }
    _, groups, _, members, names = builder.build_groups_memberships({0: config, 1: config})
    _, found, _ = builder.build_collectives(dict(enumerate(ranks)), groups, members, names, "2.10")
    return [[call.collective_name, call.pass_check, call.missing_ranks] for call in found]


def recorded(switchml, backend, *, analyze=False):
    """Delegated calls are recorded beside Gloo's."""
    start(backend=backend)
    tensor = torch.ones(10)

    def some(group=None):
        dist.broadcast(tensor, 0, group=group)
        for numel in (3, 4):
            dist.all_reduce(torch.ones(numel), group=group)
        dist.all_reduce(torch.ones(5, dtype=torch.float64), group=group)
        dist.barrier(group=group)
        dist.all_reduce(torch.ones(6), group=group)
        if RANK == 0:
            dist.send(tensor, 1, group=group)
        else:
            dist.recv(tensor, 0, group=group)
        dist.all_reduce(torch.ones(7), group=group)
        dist.broadcast(tensor, 0, group=group)

    some()
    other = dist.new_group(group_desc="another group")
    some(other)
    some()
    own = default_group()._get_backend(torch.device("cpu"))
    sequence, own = own._get_sequence_number_for_group(), None
    seen = dumped()
    del other
    found = analyzed(seen) if analyze else []
    return finish(switchml, entries=seen, sequence=sequence, analyzed=found)


def unfinished(_switchml):
    """Rank 0 sums alone, and finds its call in the dump."""
    start()
    dist.all_reduce(torch.ones(2))
    if RANK == 0:
        dist.all_reduce(torch.ones(3), async_op=True)
        return {"states": [(entry["input_sizes"], entry["state"]) for entry in dumped()]}
    dist.distributed_c10d._get_default_store().wait(["never"], dt.timedelta(seconds=1))
    return {}


def ended_in_callbacks(switchml, how):
    """Neither of two callbacks of rank 0 ends before the group, which one or both of them end."""
    start()
    store = c10d._get_default_store()
    if RANK != 0:
        store.wait(["ready"])
    works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(2)]
    if RANK == 0:
        calls = [dist.destroy_process_group, int]
        if how != "destroy":
            calls = [getattr(default_group()._get_backend(torch.device("cpu")), how)] * 2
        together = threading.Barrier(2)

        def end(call):
            together.wait(60)
            call()
            together.wait(60)

        done = [
            work.get_future().then(lambda _, call=call: end(call))
            for work, call in zip(works, calls)
        ]
        store.set("ready", "")
        works = done
    for work in works:
        work.wait()


def asked_as_gloo(switchml, backend):
    """Functions that torch allows only for groups of Gloo work."""
    importlib.import_module("torch_switchml_backend").register()
    start(backend=backend)
    group = default_group()
    own = group._get_backend(torch.device("cpu"))
    summed([*range(WORLD)])
    answers = [group.name(), own.name(), group._get_sequence_number_for_group()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        set_timeout = getattr(dist, "set_timeout", None) or c10d._set_pg_timeout
        set_timeout(dt.timedelta(seconds=44))
    answers.append(own.options._timeout.seconds)
    if ":" not in backend:  # torch compares the whole text with the name of Gloo
        dist.monitored_barrier(timeout=dt.timedelta(seconds=TIMEOUT))
        parts = [torch.zeros(2) for _ in range(WORLD)]
        mine = [torch.full((2,), float(RANK)) for _ in range(WORLD)]
        functional.all_to_all(parts, mine)
        assert [int(part[0]) for part in parts] == [*range(WORLD)]
    assert dist.get_backend() == backend
    return finish(switchml, answers=answers)


def options(switchml):
    """Gloo's options work as documented."""
    limit = dt.timedelta(seconds=33)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = dist.ProcessGroupGloo._Options()
        dist.init_process_group("switchml", timeout=limit, pg_options=given)
    summed([*range(WORLD)])
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()
    backend = default_group()._get_backend(torch.device("cpu"))
    if hasattr(work, "_get_sequence_number"):
        assert work._get_sequence_number() == 3 == backend._get_sequence_number_for_group()
    if hasattr(dist.ProcessGroupGloo, "_set_default_timeout"):
        backend._set_default_timeout(dt.timedelta(seconds=44))
        limits = [work.timeout] if hasattr(type(work), "timeout") else []
        last = dist.all_reduce(torch.ones(3), async_op=True)
        last.wait()
        limits += [last.timeout] if limits else []
        assert limits in ([], [limit, dt.timedelta(seconds=44)])


def zero(switchml):
    """torch refuses hooks that may hang with Gloo."""
    start()
    module = importlib.import_module(f"{ddp_comm_hooks.__name__}.ddp_zero_hook")
    parallel = DistributedDataParallel(torch.nn.Linear(2, 2))
    for name in ("hook_with_zero_step", "hook_with_zero_step_interleaved"):
        optimizer = types.SimpleNamespace(_overlap_with_ddp=True)
        error = raised(getattr(module, name), default_hooks.allreduce_hook, parallel, optimizer)
        assert "Gloo backend" in str(error), name
