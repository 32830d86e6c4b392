"""Activates the import hook where nothing is installed. Named sitecustomize.py, on PYTHONPATH.

Only that reaches every process that is started from there on: torchrun's ranks, spawned children,
`python -m`. Then it hands over to the sitecustomize that it stands before.
"""

import importlib.machinery
import importlib.util
import os
import sys


def _hand_over() -> None:
    """Runs the sitecustomize that this one hides."""
    places = [os.path.abspath(path) for path in sys.path]
    behind = sys.path[places.index(os.path.dirname(os.path.abspath(__file__))) + 1 :]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", behind)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    import switchml_graft  # type: ignore[import-not-found]  # it is beside this file there

    switchml_graft.activate()
    _hand_over()
