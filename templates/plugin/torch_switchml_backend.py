"""The names "switchml" and, on request, "gloo" in torch.distributed, without what a group takes.

torch finds `register` by an entry point, some releases of it at their own import: no more is
imported here than they have imported by then.
"""

import contextlib
import functools
import importlib
import inspect
import os
import sys

import torch.distributed as dist
import torch_switchml_launch

_DEVICES = ["cpu", "cuda"]
_CHECKS = "_create_process_group_wrapper"  # which has a Gloo of its own: DEBUG=DETAIL
_OWN = "torch_switchml"
FOR_GLOO = "SWITCHML_FOR_GLOO"


def register():
    """Lets init_process_group know the backend, where it does not yet, and takes Gloo's place."""
    if not dist.is_available():
        return
    if not hasattr(dist.Backend, "SWITCHML"):
        known = inspect.signature(dist.Backend.register_backend).parameters
        more = {"devices": _DEVICES} if "devices" in known else {}
        dist.Backend.register_backend("switchml", create, extended_api=True, **more)
        if hasattr(dist.ProcessGroup, "_set_default_backend"):
            _give_type(dist.ProcessGroup)
    if _is_set(FOR_GLOO):
        torch_switchml_launch.activate()
        _take_place()
    if os.environ.get("SWITCHML_RUN"):  # where another sitecustomize.py stands before that of run
        with contextlib.suppress(ImportError):
            importlib.import_module("switchml_run").activate()


def create(options, gloo_options):
    """A process group of the backend. The plugin itself is imported for the first."""
    import torch_switchml  # noqa: PLC0415

    _take_place()
    return torch_switchml._create(options, gloo_options)


def _give_type(group):
    """Gives groups of "switchml" the type of Gloo: sequence numbers and more depend on it.

    Not where DEBUG=DETAIL wraps one: DistributedDataParallel takes what is inside for Gloo's class.
    Where any backend is registered, torch has no default for "cpu:gloo" either; without, Gloo is.
    """
    register_backend, gloo = group._register_backend, group.BackendType.GLOO

    @functools.wraps(register_backend)
    def typed(self, device, backend_type, backend=None):
        before = [self._get_backend(one) for one in self._device_types]
        if type(backend).__module__.startswith(_OWN) and before[:1] in ([], [backend]):
            backend_type = gloo
        if backend_type == gloo and self.name() in {"custom", "undefined"}:
            self._set_default_backend(gloo)
        return register_backend(self, device, backend_type, backend)

    group._register_backend = typed


def _take_place():
    gloo = getattr(dist.distributed_c10d, "ProcessGroupGloo", None)
    if gloo is not None and not isinstance(gloo, _GlooPlace):
        dist.ProcessGroupGloo = dist.distributed_c10d.ProcessGroupGloo = _GlooPlace(gloo)


class _GlooPlace:
    """ProcessGroupGloo as torch and libraries see it: what stands before a group of it is one."""

    def __init__(self, gloo):
        self._gloo = gloo

    def __getattr__(self, name):
        return getattr(self._gloo, name)

    def __instancecheck__(self, group):
        module = type(group).__module__
        return isinstance(group, self._gloo) or module.startswith(_OWN)

    def __mro_entries__(self, bases):
        return (self._gloo,)

    def __call__(self, store, *more, **named):
        checks = sys._getframe(1).f_code.co_name == _CHECKS
        plugin = _load() if _is_set(FOR_GLOO) and not checks else None
        gloo = self._gloo(store, *more, **named)
        # Before torch 2 DistributedDataParallel takes what has the name of Gloo for Gloo's class.
        name = "gloo" if hasattr(dist.ProcessGroup, "_set_default_backend") else "switchml"
        return gloo if plugin is None else plugin._stand_before(gloo, store, name)


@functools.lru_cache(maxsize=None)  # noqa: UP033  # Python 3.7 has no cache
def _load():
    """The plugin, or None, which is told once, where this torch cannot load it."""
    try:
        import torch_switchml  # noqa: PLC0415
    except (ImportError, OSError) as error:
        if _is_set("SWITCHML_REQUIRE"):
            raise RuntimeError(f"SWITCHML_REQUIRE is set, but {error}") from error
        if sys.stderr is not None:
            sys.stderr.write(f"switchml: warning: {FOR_GLOO} is set, but {error}; Gloo sums\n")
        return None
    return torch_switchml


def _is_set(name):
    return os.environ.get(name, "0") not in {"", "0"}
