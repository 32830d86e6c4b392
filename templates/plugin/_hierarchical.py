"""The communication hook for hosts with several ranks: their leaders sum through SwitchML."""

import contextlib
import itertools
import os
import queue
import threading
import weakref

import torch
import torch.distributed as dist

_AFTER_FAILURE_S = 5  # that the end of the program waits for a stage which another rank left alone
_STATES = itertools.count()


class HierarchicalState:
    """The groups of `hierarchical_hook`, and the threads that issue their collectives.

    Making one is a collective: all ranks of the world make it, in the same order as other groups.
    Hosts have `local_size` consecutive ranks each, as torchrun starts them. The first of a host is
    its leader. What it needs of SwitchML's configuration: num_workers is the number of hosts, rank
    the number of the host; the other ranks need none.
    """

    def __init__(
        self, local_size=None, local_backend=None, leaders_backend="switchml", timeout=None
    ):
        """Makes a group of each host's ranks, and one of the leaders.

        Args:
            local_size: ranks of a host, the same on all ranks; torchrun's LOCAL_WORLD_SIZE unless
                given.
            local_backend: of the groups within a host; that of the default group unless given, with
                Gloo in the place of SwitchML.
            leaders_backend: of the leaders' group.
            timeout: of all of these groups, a timedelta; torch's default unless given.

        Raises:
            ValueError: local_size is not known, differs between ranks, or the number of ranks is
                not a multiple of it.
        """
        rank, world = dist.get_rank(), dist.get_world_size()
        size = _agreed_size(local_size, rank, world)
        leaders = range(0, world, size)
        options = {} if timeout is None else {"timeout": timeout}
        backend = local_backend or str(dist.get_backend()).replace("switchml", "gloo")
        local = between = None
        if size > 1:
            for first in leaders:  # every rank takes part in making every group
                ranks = list(range(first, first + size))
                group = dist.new_group(
                    ranks, backend=None if backend == "undefined" else backend, **options
                )
                local = group if rank in ranks else local
        if len(leaders) > 1:
            group = dist.new_group(list(leaders), backend=leaders_backend, **options)
            between = group if rank in leaders else None
        self.leader = rank - rank % size
        self._pipeline = _Pipeline(world, self.leader, local, between)
        weakref.finalize(self, self._pipeline.end)

    def average(self, tensor, last=True):
        """The mean of a tensor over all ranks, in place of it.

        All ranks call this in the same order, with tensors of the same size and type.

        Args:
            tensor: a contiguous one, which nobody else uses until the future has ended.
            last: False where another tensor follows in any case. It may then be completed only
                after that one has been handed in.

        Returns:
            A future of the tensor. It fails with the reason of the first failure of this state, if
            there was one; then all tensors that come later fail at once.
        """
        return self._pipeline.put(tensor, last)


def hierarchical_hook(state, bucket):
    """A communication hook of DistributedDataParallel: the gradients' mean over all ranks.

    Within each host the gradients are summed at its leader. The leaders sum over the hosts, and the
    sum is broadcast within the host. Buckets overlap. DistributedDataParallel hands in the same
    buckets in the same order on all ranks; that is why the collectives of all ranks match.

    Args:
        state: a HierarchicalState.
        bucket: a torch.distributed.GradBucket.

    Returns:
        A future of the bucket's buffer.
    """
    return state.average(bucket.buffer(), bucket.is_last())


def _agreed_size(local_size, rank, world):
    """The ranks of a host, after all ranks have said what they think it is."""
    given = os.environ.get("LOCAL_WORLD_SIZE", "") if local_size is None else str(local_size)
    store = dist.distributed_c10d._get_default_store()
    key = f"torch_switchml/local_size/{next(_STATES)}"
    store.set(f"{key}/{rank}", given)
    said = [store.get(f"{key}/{other}").decode() for other in range(world)]
    for other, words in enumerate(said):
        if words != said[0]:
            raise ValueError(
                "all hosts must have the same number of ranks: local_size is "
                f"{said[0] or 'not given'} on rank 0 and {words or 'not given'} on rank {other}"
            )
    if not given:
        raise ValueError(
            "give local_size, the ranks of a host: LOCAL_WORLD_SIZE is not set, as torchrun does"
        )
    if not given.isdigit() or int(given) < 1 or world % int(given):
        raise ValueError(
            f"local_size is {given}, of which the number of ranks, {world}, is not a multiple"
        )
    return int(given)


class _Bucket:
    """A tensor on its way, whose stages follow each other on one stream of its device."""

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
    # An error that is raised here is one for C++ as well, unlike one given to set_exception().
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


class _Pipeline:
    """The stages of the buckets, in two threads: one within the host, one between the hosts.

    The collectives of a group must be issued in the same order on all of its ranks, and those of
    NCCL so over all groups of a GPU. So one thread issues all collectives within the host, in an
    order that follows from the order of the buckets alone: reduce 0, reduce 1, broadcast 0, reduce
    2, broadcast 1, and so on. What the leaders sum of one bucket thus overlaps with the reduce of
    the next one and the broadcast of the one before.
    """

    def __init__(self, world, leader, local, between):
        self._world = world
        self._leader = leader
        self._local = local
        self._between = between
        self._failure = None
        self._threads = []
        self._within = self._start(self._work_within)
        self._leaders = self._start(self._work_between)

    def put(self, tensor, last):
        bucket = _Bucket(tensor, last)
        self._within.put(bucket)
        return bucket.future

    def end(self):
        self._within.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_AFTER_FAILURE_S if self._failure else None)

    def _start(self, work):
        tasks = queue.SimpleQueue()
        # Python would wait for one that is not a daemon before end() is called.
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
            self._do("allreduce between the hosts", self._allreduce, bucket)
            bucket.summed.set()

    def _finish(self, bucket):
        bucket.summed.wait()
        self._do("broadcast within the host", self._broadcast, bucket)
        bucket.complete(self._failure)

    def _reduce(self, tensor):
        tensor.div_(self._world)  # before the sum, as without a hook: a float16 may not overflow
        if self._local:
            dist.reduce(tensor, self._leader, group=self._local)

    def _allreduce(self, tensor):
        if self._between:
            dist.all_reduce(tensor, group=self._between)

    def _broadcast(self, tensor):
        if self._local:
            dist.broadcast(tensor, self._leader, group=self._local)

    def _do(self, what, stage, bucket):
        try:
            with bucket.on_stream():
                if self._failure is None:
                    stage(bucket.tensor)
        except Exception as error:
            reason = RuntimeError(f"hierarchical_hook: the {what} failed: {error}")
            self._failure = self._failure or reason
