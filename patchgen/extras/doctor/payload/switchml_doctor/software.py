"""SwitchML in the torch of this rank."""

import importlib
import os
from typing import Any, NamedTuple


class Library(NamedTuple):
    """SwitchML in a torch, or the reason why it cannot be used."""

    module: Any
    """Module with the report; None if no group can delegate."""
    backend: str
    """Backend of groups that may delegate."""
    problem: str = ""
    """Reason why an installed SwitchML cannot be imported, or empty."""


def find_library() -> Library:
    """Find the plugin, else the patch or graft of torch."""
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
    """Return what has to be the same on all ranks, by name, and a problem of this rank."""
    import torch

    module = library.module
    report = module.report() if module else {}
    mark = dict(word.partition("=")[::2] for word in str(report.get("client", "")).split())
    return {
        "torch": torch.__version__,
        "switchml": module.__name__ if module else "",
        "simulator": str(report.get("simulator", "")),
        "flags": str(report.get("flags", "")),
        "sources": str(report.get("sources", "")),
        "fixes": mark.get("fixes", ""),
        "problem": library.problem or str(report.get("problem", "")),
        "autoload": os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1"),
    }
