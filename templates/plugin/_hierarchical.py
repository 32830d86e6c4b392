"""Communication hook for several ranks on each host: only a leader of the host uses SwitchML."""

import atexit
import contextlib
import itertools
import json
import os
import queue
import socket
import threading
import weakref

import torch
import torch.distributed as dist

_AFTER_FAILURE_S = 5  # limit at exit for a stage that waits for a failed rank
_LONGEST_S = 1800  # default timeout of c10d
_STATES = itertools.count()
_PIPELINES = weakref.WeakSet()


class HierarchicalState:
    """Groups of `hierarchical_hook`, and the threads that issue their collectives.

    Constructing it is a collective: all ranks of the world construct it, in the same order as other
    groups. The first rank of a host is its leader. The leaders of a rack are the workers of one
    switch. A single switchml.cfg without rank and num_workers serves them; they take the numbers of
    their group.
    """

    def __init__(
        self,
        local_size=None,
        local_backend=None,
        leaders_backend="switchml",
        timeout=None,
        *,
        host=None,
        rack=None,
        racks_backend="gloo",
    ):
        """Make a group for each host, a group of each rack's leaders, and a group of racks.

        Args:
            local_size: number of ranks of a host, the same on all ranks; a host then has
                consecutive ranks. None distinguishes hosts by `host`.
            local_backend: backend of the groups within a host; None for the default group's, with
                Gloo instead of SwitchML.
            leaders_backend: backend of the groups of leaders.
            timeout: timeout of all these groups, a timedelta; None for torch's default.
            host: name of this rank's host; None for SWITCHML_HOST, else the names of the machine
                and of its network namespace.
            rack: name of this rank's rack; None for SWITCHML_RACK. Without names there is one rack.
            racks_backend: backend of the group between racks, which has the first leader of each
                rack.

        Raises:
            ValueError: the arguments of the ranks contradict each other, or both `local_backend`
                and `racks_backend` are NCCL, whose collectives would have no common order.
        """
        rank, world = dist.get_rank(), dist.get_world_size()
        local_backend = local_backend or str(dist.get_backend()).replace("switchml", "gloo")
        options = {} if timeout is None else {"timeout": timeout}
        place = {
            "size": None if local_size is None else str(local_size),
            "host": host or os.environ.get("SWITCHML_HOST") or _machine(),
            "rack": rack or os.environ.get("SWITCHML_RACK") or "",
        }
        hosts, racks = _layout(_exchange(place, rank, world))
        if len(racks) > 1 and len(hosts) < world and {local_backend, racks_backend} == {"nccl"}:
            raise ValueError("NCCL cannot be both local_backend and racks_backend; give gloo")

        def make(lists, backend):
            """Make a group of each list of several ranks, and return the group of this rank."""
            mine = None
            for ranks in lists:  # new_group is a collective of all ranks
                if len(ranks) > 1:
                    group = dist.new_group(ranks, backend=backend, **options)
                    mine = group if rank in ranks else mine
            return mine

        self.leader = next(ranks[0] for ranks in hosts if rank in ranks)
        first = next(leaders[0] for leaders in racks if self.leader in leaders)
        self._pipeline = _Pipeline(
            world,
            _Level(make(hosts, None if local_backend == "undefined" else local_backend),
                   self.leader),
            _Level(make(racks, leaders_backend), first),
            _Level(make([[leaders[0] for leaders in racks]], racks_backend), 0),
            several=len(racks) > 1,
        )  # fmt: skip
        weakref.finalize(self, self._pipeline.end)

    def average(self, tensor, last=True):
        """Replace a tensor by its mean over all ranks.

        All ranks call this in the same order, with tensors of the same size and type.

        Args:
            tensor: a contiguous tensor that is not used elsewhere until the future is done.
            last: False if another tensor certainly follows. This tensor may then be done only after
                the next one was passed.

        Returns:
            A future of the tensor. After a failure of this state, it and all later futures raise
                the first error.
        """
        return self._pipeline.put(tensor, last)


def hierarchical_hook(state, bucket):
    """Communication hook of DistributedDataParallel that averages gradients over all ranks.

    Within each host the gradients are summed at its leader. The leaders sum over the hosts, and the
    sum is broadcast within the host. Buckets overlap. DistributedDataParallel passes the same
    buckets in the same order on all ranks, so the collectives of all ranks match.

    Args:
        state: a HierarchicalState.
        bucket: a torch.distributed.GradBucket.

    Returns:
        A future of the bucket's buffer.
    """
    return state.average(bucket.buffer(), bucket.is_last())


def _machine():
    """Return a name that is unique to a machine, or to a container with its own network."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        parts.append(file.read().strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/net"))
    return " ".join(parts)


def _exchange(place, rank, world):
    """Return the values of all ranks in order, which rank 0 gathers."""
    store = dist.distributed_c10d._get_default_store()
    key = f"torch_switchml/hierarchy/{next(_STATES)}"
    if rank:
        store.set(f"{key}/{rank}", json.dumps(place))
    else:
        others = [json.loads(store.get(f"{key}/{other}")) for other in range(1, world)]
        store.set(key, json.dumps([place, *others]))
    return json.loads(store.get(key))


def _layout(places):
    """Return the ranks of each host, and the leaders of each rack, ordered by first rank."""
    world = len(places)
    for other, place in enumerate(places):
        if place["size"] != places[0]["size"]:
            sizes = [one["size"] or "not given" for one in (places[0], place)]
            raise ValueError(
                "local_size must be the same on all ranks: it is "
                f"{sizes[0]} on rank 0 and {sizes[1]} on rank {other}"
            )
        if bool(place["rack"]) != bool(places[0]["rack"]):
            without = other if places[0]["rack"] else 0
            raise ValueError(f"rank {without} has no rack, but others have; set SWITCHML_RACK")
    size = places[0]["size"]
    if size is not None and (not size.isdigit() or int(size) < 1 or world % int(size)):
        raise ValueError(
            f"local_size is {size}, of which the number of ranks, {world}, is not a multiple"
        )
    hosts, racks = {}, {}
    for rank, place in enumerate(places):
        ranks = hosts.setdefault(place["host"] if size is None else rank // int(size), [])
        ranks.append(rank)
        if place["rack"] != places[ranks[0]]["rack"]:
            raise ValueError(
                f"ranks {ranks[0]} and {rank} are on one host, but in the racks "
                f"{places[ranks[0]]['rack']} and {place['rack']}"
            )
        if len(ranks) == 1:
            racks.setdefault(place["rack"], []).append(rank)
    return [*hosts.values()], [*racks.values()]


class _Level:
    """Group of ranks, or None, and the rank that gets the sum of the group."""

    def __init__(self, group, first):
        self._group = group
        self._first = first

    def reduce(self, tensor):
        if self._group:
            dist.reduce(tensor, self._first, group=self._group)

    def all_reduce(self, tensor):
        if self._group:
            dist.all_reduce(tensor, group=self._group)

    def broadcast(self, tensor):
        if self._group:
            dist.broadcast(tensor, self._first, group=self._group)


class _Bucket:
    """Tensor in the pipeline, whose stages run in order on one stream of its device."""

    def __init__(self, tensor, last):
        self.tensor = tensor
        self.last = last
        self.summed = threading.Event()
        self._stream, devices = None, None
        if tensor.is_cuda:
            self._stream, devices = torch.cuda.Stream(tensor.device), [tensor.device]
            self._stream.wait_stream(torch.cuda.current_stream(tensor.device))
            tensor.record_stream(self._stream)
        self._done = torch.futures.Future(devices=devices)
        self.future = self._done.then(_outcome)

    def on_stream(self):
        return torch.cuda.stream(self._stream) if self._stream else contextlib.nullcontext()

    def complete(self, failure):
        with self.on_stream():
            self._done.set_result(failure or self.tensor)


def _outcome(future):
    # Raise here, because C++ does not see an error passed to set_exception().
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


class _Pipeline:
    """Stages of the buckets, in two threads: one within the host, one between hosts.

    The collectives of a group must be issued in the same order on all of its ranks, and those of
    NCCL in the same order over all groups of a GPU. So one thread issues all collectives within the
    host, in an order that depends only on the order of the buckets: reduce 0, reduce 1, broadcast
    0, reduce 2, broadcast 1, and so on. The leaders' sum of a bucket thus overlaps with the reduce
    of the next bucket and the broadcast of the previous one.
    """

    def __init__(self, world, host, rack, racks, *, several):
        self._world = world
        self._host = host
        self._rack = rack
        self._racks = racks
        self._several = several
        self._failure = None
        self._threads = []
        self._within = self._start(self._work_within)
        self._leaders = self._start(self._work_between)
        _PIPELINES.add(self)

    def put(self, tensor, last):
        bucket = _Bucket(tensor, last)
        self._within.put(bucket)
        return bucket.future

    def end(self):
        """Tell the threads to end, without waiting: a callback in one of them may call this."""
        self._within.put(None)

    def join(self):
        self.end()
        for thread in self._threads:
            thread.join(_AFTER_FAILURE_S if self._failure else _LONGEST_S)

    def _start(self, work):
        tasks = queue.SimpleQueue()
        # Python would wait at exit for a thread that is not a daemon, before it calls _join().
        thread = threading.Thread(target=work, args=(tasks,), name="switchml-host", daemon=True)
        thread.start()
        self._threads.append(thread)
        return tasks

    def _work_within(self, tasks):
        held = None
        for bucket in iter(tasks.get, None):
            self._do("reduce within the host", self._reduce, bucket)
            self._leaders.put(bucket)
            if held:
                self._finish(held)
            held = bucket
            if bucket.last:
                self._finish(bucket)
                held = None
        self._leaders.put(None)
        if held:
            held.complete(RuntimeError("hierarchical_hook: its state has ended"))

    def _work_between(self, tasks):
        for bucket in iter(tasks.get, None):
            self._do("allreduce between the hosts", self._rack.all_reduce, bucket)
            self._do("allreduce between the racks", self._racks.all_reduce, bucket)
            if self._several:
                self._do("broadcast within the rack", self._rack.broadcast, bucket)
            bucket.summed.set()

    def _finish(self, bucket):
        bucket.summed.wait()
        self._do("broadcast within the host", self._host.broadcast, bucket)
        bucket.complete(self._failure)

    def _reduce(self, tensor):
        tensor.div_(self._world)  # before the sum, as without a hook, so that float16 can hold it
        self._host.reduce(tensor)

    def _do(self, what, stage, bucket):
        try:
            with bucket.on_stream():
                if self._failure is None:
                    stage(bucket.tensor)
        except Exception as error:
            reason = RuntimeError(f"hierarchical_hook: the {what} failed: {error}")
            self._failure = self._failure or reason


@atexit.register
def _join():
    """Wait for the threads before Python ends."""
    for pipeline in list(_PIPELINES):
        pipeline.join()
