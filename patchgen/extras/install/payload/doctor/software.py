"""SwitchML in the torch of this rank."""

import importlib
from typing import Any


def find_library() -> "tuple[Any, str]":
    """Module with the report, and the backend of groups that may delegate; None where none may."""
    for name, backend in (("torch_switchml", "switchml"), ("torch.distributed.switchml", "gloo")):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if module.is_patched():
            return module, backend
    return None, "gloo"


def describe(module: Any) -> "dict[str, str]":
    """Describes what has to be the same on all ranks, by its name."""
    import torch

    report = module.report() if module else {}
    mark = dict(word.partition("=")[::2] for word in str(report.get("client", "")).split())
    return {
        "torch": torch.__version__,
        "switchml": module.__name__ if module else "",
        "simulator": str(report.get("simulator", "")),
        "flags": str(report.get("flags", "")),
        "protocol": str(report.get("protocol", "")),
        "mends": mark.get("mends", ""),
    }
