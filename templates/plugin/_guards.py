"""Guards where torch compares the backend's name with Gloo's, to refuse what may hang.

The hooks that step ZeroRedundancyOptimizer in callbacks: what stands before Gloo is asked there by
the name of Gloo.
"""

import importlib.util
import sys

_MODULE = "torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook"


class _Distributed:
    """torch.distributed, as that module is to see it."""

    def __init__(self, dist):
        self._dist = dist

    def __getattr__(self, name):
        return getattr(self._dist, name)

    def get_backend(self, group=None):
        backend = self._dist.get_backend(group)
        return self._dist.Backend.GLOO if "switchml" in str(backend) else backend


def _guard(module):
    module.dist = _Distributed(module.dist)


class _Finder:
    """Sees the import of that module, which takes seconds, so it is not imported before."""

    def find_spec(self, name, _path=None, _target=None):
        """Finds a module, as importlib asks for it."""
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _guard(module)

        spec.loader.exec_module = exec_module
        return spec


def install():
    """Guards the module, whether it is imported before or after."""
    if _MODULE in sys.modules:
        _guard(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Finder())
