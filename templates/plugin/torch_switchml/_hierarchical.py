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

_EXIT_LIMIT_AFTER_FAILURE_S = 5  # for a stage that waits for a failed rank
_EXIT_LIMIT_S = 1800  # c10d's default timeout
_state_numbers = itertools.count()  # of the states, equal on all ranks
_pipelines = weakref.WeakSet()


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
        location = {
            "size": None if local_size is None else str(local_size),
            "host": host or os.environ.get("SWITCHML_HOST") or _machine_name(),
            "rack": rack or os.environ.get("SWITCHML_RACK") or "",
        }
        hosts, racks = _group_ranks(_gather(location, rank, world))
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
            has_racks=len(racks) > 1,
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


def _machine_name():
    """Return a name that is unique to a machine, or to a container with its own network."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        parts.append(file.read().strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/net"))
    return " ".join(parts)


def _gather(location, rank, world):
    """Return the locations of all ranks in order. Rank 0 gathers and publishes them."""
    store = dist.distributed_c10d._get_default_store()
    key = f"torch_switchml/hierarchy/{next(_state_numbers)}"
    if rank:
        store.set(f"{key}/{rank}", json.dumps(location))
    else:
        others = [json.loads(store.get(f"{key}/{other}")) for other in range(1, world)]
        store.set(key, json.dumps([location, *others]))
    return json.loads(store.get(key))


def _group_ranks(locations):
    """Return the ranks of each host, and the leaders of each rack, ordered by first rank.

    Raises:
        ValueError: the ranks' values contradict each other.
    """
    world = len(locations)
    for other, location in enumerate(locations):
        if location["size"] != locations[0]["size"]:
            sizes = [one["size"] or "not given" for one in (locations[0], location)]
            raise ValueError(
                "local_size must be the same on all ranks: it is "
                f"{sizes[0]} on rank 0 and {sizes[1]} on rank {other}"
            )
        if bool(location["rack"]) != bool(locations[0]["rack"]):
            without = other if locations[0]["rack"] else 0
            raise ValueError(f"rank {without} has no rack, but others have; set SWITCHML_RACK")
    size = locations[0]["size"]
    if size is not None and (not size.isdigit() or int(size) < 1 or world % int(size)):
        raise ValueError(
            f"local_size is {size}, but the number of ranks, {world}, is not a multiple of it"
        )
    hosts, racks = {}, {}
    for rank, location in enumerate(locations):
        ranks = hosts.setdefault(location["host"] if size is None else rank // int(size), [])
        ranks.append(rank)
        if location["rack"] != locations[ranks[0]]["rack"]:
            raise ValueError(
                f"ranks {ranks[0]} and {rank} are on one host, but in the racks "
                f"{locations[ranks[0]]['rack']} and {location['rack']}"
            )
        if len(ranks) == 1:
            racks.setdefault(location["rack"], []).append(rank)
    return [*hosts.values()], [*racks.values()]


class _Level:
    """Level of the hierarchy: a group of ranks, and its root, the rank that gets the sum.

    Without a group, on ranks outside of the level, its collectives do nothing.
    """

    def __init__(self, group, root):
        self._group = group
        self._root = root

    def reduce(self, tensor):
        if self._group:
            dist.reduce(tensor, self._root, group=self._group)

    def all_reduce(self, tensor):
        if self._group:
            dist.all_reduce(tensor, group=self._group)

    def broadcast(self, tensor):
        if self._group:
            dist.broadcast(tensor, self._root, group=self._group)


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
        self.future = self._done.then(_value_or_raise)

    def on_stream(self):
        """Return a context in which the bucket's stream is the current one."""
        return torch.cuda.stream(self._stream) if self._stream else contextlib.nullcontext()

    def complete(self, failure):
        """End the future, with an exception or with the tensor if that is None."""
        with self.on_stream():
            self._done.set_result(failure or self.tensor)


def _value_or_raise(future):
    """Return the value of a future, or raise it if it is an exception.

    C++ does not see an error that is passed to set_exception().
    """
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

    def __init__(self, world, host, rack, racks, *, has_racks):
        self._world = world
        self._host = host
        self._rack = rack
        self._racks = racks
        self._has_racks = has_racks
        self._failure = None
        self._threads = []
        self._within_host = self._start(self._work_within_host)
        self._between_hosts = self._start(self._work_between_hosts)
        _pipelines.add(self)

    def put(self, tensor, last):
        """Queue a tensor; return the future of its mean."""
        bucket = _Bucket(tensor, last)
        self._within_host.put(bucket)
        return bucket.future

    def end(self):
        """Tell the threads to end, without waiting: a callback in one of them may call this."""
        self._within_host.put(None)

    def join(self):
        """Wait until the threads have ended, for a limited time each."""
        self.end()
        for thread in self._threads:
            thread.join(_EXIT_LIMIT_AFTER_FAILURE_S if self._failure else _EXIT_LIMIT_S)

    def _start(self, work):
        """Start a thread, and return the queue of its buckets."""
        buckets = queue.SimpleQueue()
        # Python would wait at exit for a thread that is not a daemon, before it calls _join().
        thread = threading.Thread(target=work, args=(buckets,), name="switchml-host", daemon=True)
        thread.start()
        self._threads.append(thread)
        return buckets

    def _work_within_host(self, buckets):
        previous = None
        for bucket in iter(buckets.get, None):
            self._do("reduce within the host", self._reduce, bucket)
            self._between_hosts.put(bucket)
            if previous:
                self._finish(previous)
            previous = bucket
            if bucket.last:
                self._finish(bucket)
                previous = None
        self._between_hosts.put(None)
        if previous:
            previous.complete(RuntimeError("hierarchical_hook: its state has ended"))

    def _work_between_hosts(self, buckets):
        for bucket in iter(buckets.get, None):
            self._do("allreduce between the hosts", self._rack.all_reduce, bucket)
            self._do("allreduce between the racks", self._racks.all_reduce, bucket)
            if self._has_racks:
                self._do("broadcast within the rack", self._rack.broadcast, bucket)
            bucket.summed.set()

    def _finish(self, bucket):
        """Broadcast a bucket within the host when its sum is there, and complete its future."""
        bucket.summed.wait()
        self._do("broadcast within the host", self._host.broadcast, bucket)
        bucket.complete(self._failure)

    def _reduce(self, tensor):
        tensor.div_(self._world)  # before the sum, as without a hook, so that float16 can hold it
        self._host.reduce(tensor)

    def _do(self, name, stage, bucket):
        """Run a stage of a bucket, unless a stage has failed before. Keep the first failure."""
        try:
            with bucket.on_stream():
                if self._failure is None:
                    stage(bucket.tensor)
        except Exception as error:
            failure = RuntimeError(f"hierarchical_hook: the {name} failed: {error}")
            self._failure = self._failure or failure


@atexit.register
def _join():
    """Wait for the threads before Python ends."""
    for pipeline in list(_pipelines):
        pipeline.join()
