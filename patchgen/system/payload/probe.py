"""Probe of an interpreter and its torch.

It is given to an interpreter on stdin, with a call of `main` behind it. Runs under Python 3.6 and
newer with any torch since 1.7, and imports nothing of this package. Each finding is a line, written
at once, since what comes next may end the process.
"""

import ctypes
import importlib
import importlib.machinery
import importlib.util
import json
import os
import platform
import site
import sys
import sysconfig
from typing import Any, Callable

MARK = "switchml-probe: "
SELF, PACKAGES, WHERE, TORCH = "self", "packages", "where", "torch"
HOOK = "switchml_graft"
PATCH = "torch.distributed.switchml"
LIBRARY = "library"
PLUGIN = "torch_switchml"


def write(step: str, **what: Any) -> None:
    """Writes a line; a library may have left its own unfinished."""
    sys.stdout.write("\n" + MARK + json.dumps(dict(what, step=step)) + "\n")
    sys.stdout.flush()


def answer(step: str, look: "Callable[[], Any]") -> bool:
    """Writes that a step begins, and its answer or its problem."""
    write(step)
    try:
        found = look()
    except Exception as error:  # noqa: BLE001  # whatever an installation raises is what was found
        write(step, error=f"{type(error).__name__}: {error}".strip())
        return False
    write(step, found=found)
    return True


def interpreter() -> "dict[str, Any]":
    """Facts about the interpreter."""
    variables = sysconfig.get_config_var
    include = sysconfig.get_paths()["include"]
    return {
        "executable": sys.executable,
        "version": platform.python_version(),
        "implementation": sys.implementation.name,
        "platform": sysconfig.get_platform(),
        "tag": "cp{}{}".format(*sys.version_info[:2]),
        "abi_flags": getattr(sys, "abiflags", ""),
        "soabi": variables("SOABI"),
        "suffix": variables("EXT_SUFFIX"),
        "include": include,
        "has_header": os.path.exists(os.path.join(include, "Python.h")),
        "purelib": sysconfig.get_paths()["purelib"],
        "user": site.getusersitepackages() if site.ENABLE_USER_SITE else None,
    }


def versions(names: "list[str]") -> "dict[str, str]":
    """Versions of those packages that are there."""
    found = {}
    for name in names:
        try:
            found[name] = _version(name)
        except Exception:  # noqa: BLE001, PERF203, S112  # each library has its own for what is absent
            continue
    return found


def _version(name: str) -> str:
    try:
        metadata = importlib.import_module("importlib.metadata")  # since Python 3.8
    except ImportError:
        return str(importlib.import_module("pkg_resources").get_distribution(name).version)
    return str(metadata.version(name))


def where() -> "str | None":
    """Directory of torch, which is not imported."""
    spec = importlib.util.find_spec("torch")
    return os.path.dirname(os.path.abspath(spec.origin)) if spec and spec.origin else None


def imported() -> "dict[str, Any]":
    """Facts about torch, which is imported."""
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


def hook() -> "dict[str, Any] | None":
    """Graft that the import hook has to load, and has loaded."""
    module = sys.modules.get(HOOK)  # type: Any
    finders = [one for one in sys.meta_path if type(one).__module__ == HOOK]  # type: list[Any]
    if module is None:
        return None
    # The hook may be of another version, in which the method had another name.
    names = ("named_graft", "wanted")
    methods = [getattr(one, name, None) for one in finders[:1] for name in names]
    find_graft = next(filter(None, methods), None)
    return {
        "wanted": find_graft() if find_graft else None,
        "loaded": getattr(module, "loaded", None),
        "problem": getattr(module, "problem", ""),
    }


def report(name: str) -> "Callable[[], Any]":
    """Function that asks a module for its report."""
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
    """File whose switchml_torch_report this process finds."""
    for path in (None, sys.modules["torch"]._C.__file__):
        try:
            function = ctypes.CDLL(path).switchml_torch_report
        except (AttributeError, OSError):
            continue
        info = DlInfo()
        if ctypes.CDLL(None).dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(info)):
            return os.fsdecode(info.fname)
    return None


def main(packages: "list[str]", *, torch: bool) -> None:
    """Looks at what is asked for, up to what makes the rest senseless, and may end the process.

    Args:
        packages: packages whose versions are told.
        torch: imports torch, and looks at its support of SwitchML.
    """
    sys.path[:] = [path for path in sys.path if path]  # nothing of where this was started
    answer(SELF, interpreter)
    answer(PACKAGES, lambda: versions(packages))
    answer(HOOK, hook)
    answer(WHERE, where)
    if torch:
        look_at_torch()
        os._exit(0)  # all is told, and to take torch apart takes a third of a second


def look_at_torch() -> None:
    """Looks at torch, and at its support of SwitchML."""
    done = answer(TORCH, imported)
    answer(HOOK, hook)
    if not done:
        return
    if importlib.util.find_spec(PATCH) is not None and answer(PATCH, report(PATCH)):
        answer(LIBRARY, library)
    if importlib.util.find_spec(PLUGIN) is not None:
        answer(PLUGIN, report(PLUGIN))
