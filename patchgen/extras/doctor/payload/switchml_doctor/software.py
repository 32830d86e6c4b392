"""SwitchML in the torch of this rank."""

import importlib
import os
from typing import Any, NamedTuple


class Library(NamedTuple):
    """SwitchML in a torch: how it is reached, or why it cannot be used."""

    module: Any
    """Module with the report; None where no group may delegate."""
    backend: str
    """Backend of groups that may delegate."""
    problem: str = ""
    """Reason why what is installed cannot be imported."""


def find_library() -> Library:
    """Finds the plugin, else what a patch or a graft has put into torch."""
    problem = ""
    for name, backend in (("torch_switchml", "switchml"), ("torch.distributed.switchml", "gloo")):
        try:
            module = importlib.import_module(name)
        except (ImportError, OSError) as error:
            absent = isinstance(error, ModuleNotFoundError) and error.name == name
            problem = problem or ("" if absent else str(error))
            continue
        if module.is_patched():
            return Library(module, backend)
    return Library(None, "gloo", problem)


def describe(library: Library) -> "dict[str, str]":
    """Describes what has to be the same on all ranks, by its name, and a problem of this one."""
    import torch

    module = library.module
    report = module.report() if module else {}
    mark = dict(word.partition("=")[::2] for word in str(report.get("client", "")).split())
    return {
        "torch": torch.__version__,
        "switchml": module.__name__ if module else "",
        "simulator": str(report.get("simulator", "")),
        "flags": str(report.get("flags", "")),
        "protocol": str(report.get("protocol", "")),
        "mends": mark.get("mends", ""),
        "problem": library.problem,
        "autoload": os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1"),
    }
