"""Registration of the backend "switchml", and on request of "gloo", in torch.distributed.

torch finds `register` by an entry point. Some releases call it while they are imported, so this
module imports nothing that they have not imported by then.
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
_CHECKING_CALLER = "_create_process_group_wrapper"  # makes a Gloo group for DEBUG=DETAIL
_PACKAGE = "torch_switchml"
FOR_GLOO = "SWITCHML_FOR_GLOO"


def register():
    """Register the backend if necessary, and replace Gloo if SWITCHML_FOR_GLOO is set."""
    if not dist.is_available():
        return
    if not hasattr(dist.Backend, "SWITCHML"):
        parameters = inspect.signature(dist.Backend.register_backend).parameters
        more = {"devices": _DEVICES} if "devices" in parameters else {}
        dist.Backend.register_backend("switchml", create, extended_api=True, **more)
        if hasattr(dist.ProcessGroup, "_set_default_backend"):
            _register_as_gloo(dist.ProcessGroup)
    if _is_set(FOR_GLOO):
        torch_switchml_launch.activate()
        _replace_gloo_class()
    if os.environ.get("SWITCHML_RUN"):  # another sitecustomize.py may hide that of run
        with contextlib.suppress(ImportError):
            importlib.import_module("switchml_run").activate()


def create(options, gloo_options):
    """Make a process group of the backend. The first call imports the plugin."""
    import torch_switchml  # noqa: PLC0415

    _replace_gloo_class()
    return torch_switchml._create(options, gloo_options)


def _register_as_gloo(group):
    """Give groups of "switchml" the type of Gloo, on which sequence numbers and more depend.

    Not if DEBUG=DETAIL wraps a group, because DistributedDataParallel would take the wrapped group
    for Gloo's class. Torch has no default backend for "cpu:gloo" once any backend is registered;
    then Gloo becomes the default, as without a registration.
    """
    register_backend, gloo = group._register_backend, group.BackendType.GLOO

    @functools.wraps(register_backend)
    def typed(self, device, backend_type, backend=None):
        before = [self._get_backend(one) for one in self._device_types]
        if type(backend).__module__.startswith(_PACKAGE) and before[:1] in ([], [backend]):
            backend_type = gloo
        if backend_type == gloo and self.name() in {"custom", "undefined"}:
            self._set_default_backend(gloo)
        return register_backend(self, device, backend_type, backend)

    group._register_backend = typed


def _replace_gloo_class():
    """Replace torch's name for the class of Gloo's groups, once."""
    gloo = getattr(dist.distributed_c10d, "ProcessGroupGloo", None)
    if gloo is not None and not isinstance(gloo, _GlooClass):
        dist.ProcessGroupGloo = dist.distributed_c10d.ProcessGroupGloo = _GlooClass(gloo)


class _GlooClass:
    """Replacement of the class ProcessGroupGloo. Groups of the plugin are its instances too.

    Calling it makes a group of Gloo, which the plugin wraps if SWITCHML_FOR_GLOO is set.
    """

    def __init__(self, gloo):
        self._gloo = gloo

    def __getattr__(self, name):
        return getattr(self._gloo, name)

    def __instancecheck__(self, group):
        module = type(group).__module__
        return isinstance(group, self._gloo) or module.startswith(_PACKAGE)

    def __mro_entries__(self, bases):
        return (self._gloo,)

    def __call__(self, store, *more, **named):
        for_checks = sys._getframe(1).f_code.co_name == _CHECKING_CALLER
        plugin = _import_plugin() if _is_set(FOR_GLOO) and not for_checks else None
        gloo = self._gloo(store, *more, **named)
        # Before torch 2 DistributedDataParallel takes any group named "gloo" for Gloo's class.
        name = "gloo" if hasattr(dist.ProcessGroup, "_set_default_backend") else "switchml"
        return gloo if plugin is None else plugin._wrap(gloo, store, name)


@functools.lru_cache(maxsize=None)  # noqa: UP033  # Python 3.7 has no cache
def _import_plugin():
    """Return the plugin; None, with one warning, if this torch cannot load it."""
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
    """Return whether a variable of the environment is neither empty nor 0."""
    return os.environ.get(name, "0") not in {"", "0"}
