"""The name "switchml" in torch.distributed, without what it takes to make such a process group.

torch finds `register` by an entry point, some releases of it at their own import: no more is
imported here than they have imported by then.
"""

import inspect

import torch.distributed as dist

_DEVICES = ["cpu", "cuda"]


def register():
    """Lets init_process_group know the backend, where it does not yet."""
    if not dist.is_available() or hasattr(dist.Backend, "SWITCHML"):
        return
    known = inspect.signature(dist.Backend.register_backend).parameters
    more = {"devices": _DEVICES} if "devices" in known else {}
    dist.Backend.register_backend("switchml", create, extended_api=True, **more)


def create(options, gloo_options):
    """A process group of the backend. The plugin itself is imported for the first."""
    import torch_switchml  # noqa: PLC0415

    return torch_switchml._create(options, gloo_options)
