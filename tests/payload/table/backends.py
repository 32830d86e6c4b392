"""Other backends beside ours."""

import torch
import torch.distributed as dist

from table.common import cell, own_tensor


def remade_gloo(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout)


def doubling(store, rank, size, timeout):
    """Return a backend in Python that doubles instead of summing."""

    class Done(torch._C._distributed_c10d.Work):
        def __init__(self, tensors):
            super().__init__()
            self.future = torch.futures.Future()
            self.future.set_result(tensors)

        def wait(self, timeout=None):  # noqa: ARG002  # torch's signature
            return True

        def get_future(self):
            return self.future

    class Doubling(dist.ProcessGroup):
        def allreduce(self, tensors, options=None):  # noqa: ARG002  # likewise
            for tensor in tensors:
                tensor.mul_(2)
            return Done(tensors)

        def size(self):
            return size

        def getBackendName(self):  # noqa: N802  # torch's name
            return "doubling"

    return Doubling(rank, size)


def summed_beside(name, make):
    dist.Backend.register_backend(name, make)
    group = dist.new_group(backend=name)
    tensor, other = own_tensor(), own_tensor("int32")
    dist.all_reduce(tensor, group=group)
    dist.all_reduce(other)
    return [tensor, other, dist.get_backend(group), dist.get_backend()]


@cell
def third_party_gloo():
    return summed_beside("remade", remade_gloo)


@cell
def third_party_in_python():
    return summed_beside("doubling", doubling)
