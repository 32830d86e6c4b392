"""Activate the modules beside this file in every Python process. Named sitecustomize.py.

Found on PYTHONPATH, which also reaches torchrun's ranks, spawned children and `python -m`. Then
runs the sitecustomize that this file hides. Runs under Python 3.6 and newer, and imports nothing of
this package.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys

NAME = "sitecustomize"
PREFIX = "switchml_"  # of modules and packages beside this file with a function activate()


def _activate(directory: str) -> None:
    names = {entry.partition(".")[0] for entry in os.listdir(directory)}
    for name in sorted(names):
        if name.startswith(PREFIX):
            importlib.import_module(name).activate()


def _hand_over(directory: str) -> None:
    """Run the sitecustomize that this file hides."""
    places = [os.path.realpath(path) for path in sys.path]
    behind = sys.path[places.index(directory) + 1 :] if directory in places else []
    spec = importlib.machinery.PathFinder.find_spec(NAME, behind)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules[NAME] = module
        spec.loader.exec_module(module)


if __name__ == NAME:
    here = os.path.dirname(os.path.realpath(__file__))
    _activate(here)
    _hand_over(here)
