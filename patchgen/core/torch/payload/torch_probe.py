"""Probe of an interpreter's torch, and of SwitchML in it.

The interpreter runs it after `system/payload/probe.py`, in the same process, whose function
`answer` each call gets. Runs under Python 3.6 and newer with any torch since 1.7.
"""

import ctypes
import importlib
import importlib.util
import os
import sys
import threading
from typing import Any, Callable

WHERE, TORCH, INCLUDE = "where", "torch", "include"
HOOK = "switchml_graft"
PATCH = "torch.distributed.switchml"
LIBRARY = "library"
EXTENSIONS = "torch.utils.cpp_extension"
PLUGIN = "torch_switchml"
_IN_PACKAGE = ("torch/extension.h", "pybind11/pybind11.h")
_LIMIT = 30.0  # seconds


def where() -> "str | None":
    """Return the directory of torch, without importing it."""
    spec = importlib.util.find_spec("torch")
    return os.path.dirname(os.path.abspath(spec.origin)) if spec and spec.origin else None


def imported() -> "dict[str, Any]":
    """Import torch, and return facts about it."""
    import torch

    distributed = importlib.import_module("torch.distributed")
    extension = getattr(torch, "_C", None)
    names = ("_PYBIND11_COMPILER_TYPE", "_PYBIND11_STDLIB", "_PYBIND11_BUILD_ABI")
    defined = {name[1:]: getattr(extension, name, None) for name in names}
    return {
        "version": str(torch.__version__),
        "commit": torch.version.git_version,
        "cuda": torch.version.cuda,
        "root": os.path.dirname(os.path.abspath(torch.__file__)),
        "cxx11_abi": bool(getattr(extension, "_GLIBCXX_USE_CXX11_ABI", False)),
        "gloo": hasattr(distributed, "ProcessGroupGloo"),
        "pybind11": {name: value for name, value in defined.items() if value},
    }


def include_paths() -> "list[str]":
    """Return the directories of headers for extensions of torch, as torch names them.

    A package with all headers, as torch's own wheels, needs no import of
    torch.utils.cpp_extension, which needs setuptools and may look for a device.
    """
    import torch

    base = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "include")
    if all(os.path.exists(os.path.join(base, name)) for name in _IN_PACKAGE):
        return [base, os.path.join(base, "torch", "csrc", "api", "include")]
    return [*within(_LIMIT, lambda: importlib.import_module(EXTENSIONS).include_paths())]


def within(limit: float, look: "Callable[[], Any]") -> "Any":
    """Return what a function returns, which runs in a thread of its own.

    Raises:
        RuntimeError: it raised, or takes longer than `limit` seconds.
    """
    found = []  # type: list[Any]
    problem = [f"no answer in {limit:.0f} seconds"]

    def call() -> None:
        try:
            found.append(look())
        except BaseException as error:  # noqa: BLE001  # any exception of an installation
            problem[0] = f"{type(error).__name__}: {error}"

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(limit)
    if not found:
        raise RuntimeError(problem[0])
    return found[0]


def hook() -> "dict[str, Any] | None":
    """Return the graft that the import hook is to load, whether it did, and its problem."""
    module = sys.modules.get(HOOK)  # type: Any
    finders = [one for one in sys.meta_path if type(one).__module__ == HOOK]  # type: list[Any]
    if module is None:
        return None
    # Another version's hook may call this method otherwise.
    names = ("named_graft", "wanted")
    methods = [getattr(one, name, None) for one in finders[:1] for name in names]
    find_graft = next(filter(None, methods), None)
    return {
        "wanted": find_graft() if find_graft else None,
        "loaded": getattr(module, "loaded", None),
        "problem": getattr(module, "problem", ""),
    }


def report(name: str) -> "Callable[[], Any]":
    """Return a function that imports a module and returns its report."""
    return lambda: importlib.import_module(name).report()


class DlInfo(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = (
        ("fname", ctypes.c_char_p),
        ("fbase", ctypes.c_void_p),
        ("sname", ctypes.c_char_p),
        ("saddr", ctypes.c_void_p),
    )


def library() -> "str | None":
    """Return the file from which this process takes switchml_delegate_report."""
    for path in (None, sys.modules["torch"]._C.__file__):
        try:
            function = ctypes.CDLL(path).switchml_delegate_report
        except (AttributeError, OSError):
            continue
        info = DlInfo()
        if ctypes.CDLL(None).dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(info)):
            return os.fsdecode(info.fname)
    return None


def look_before_import(answer: "Callable[[str, Callable[[], Any]], bool]") -> None:
    """Examine the import hook and torch's directory, without importing torch."""
    answer(HOOK, hook)
    answer(WHERE, where)


def look_at_torch(answer: "Callable[[str, Callable[[], Any]], bool]", *, headers: bool) -> None:
    """Import torch, examine it, its support of SwitchML and its `headers`, and end the process."""
    look_before_import(answer)
    done = answer(TORCH, imported)
    answer(HOOK, hook)
    if done:
        if importlib.util.find_spec(PATCH) is not None and answer(PATCH, report(PATCH)):
            answer(LIBRARY, library)
        if importlib.util.find_spec(PLUGIN) is not None:
            answer(PLUGIN, report(PLUGIN))
        if headers:
            answer(INCLUDE, include_paths)
    os._exit(0)  # shutting torch down would take a third of a second
