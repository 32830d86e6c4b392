"""Way in which this process delegates: imported before torch, in every process of a test.

COMPAT_WAY is stock, graft, disabled or plugin. A rank's SwitchML configuration is made when it
makes its first process group: only then its rank and the number of ranks are known.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import functools
import importlib
import inspect
import json
import multiprocessing.util
import os
import re
import socket
import types
from typing import Any

WAY = os.environ["COMPAT_WAY"]
HOOK = "torch.distributed.distributed_c10d"

_settled = 0  # the process that has its configuration: a forked rank needs its own


def _config(rank: int, size: int) -> str:
    """The path of a new switchml.cfg. The ranks of a test share a port; a lone rank has its own."""
    port = os.environ["COMPAT_PORT"]
    if size == 1:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = str(listener.getsockname()[1])
    with open(os.path.join(os.environ["COMPAT_HOME"], "switchml.cfg"), encoding="utf-8") as file:
        text = file.read()
    for key, value in {"rank": rank, "num_workers": size, "controller_port": port}.items():
        text = re.sub(rf"(?m)^(?:# )?{key} =.*$", f"{key} = {value}", text)
    path = os.path.join(os.environ["COMPAT_SCRATCH"], f"{os.getpid()}.cfg")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _report() -> dict[str, Any] | None:
    if WAY == "plugin":
        answer: dict[str, Any] = importlib.import_module("torch_switchml").report()
        return answer
    function = getattr(ctypes.CDLL(None), "switchml_torch_report", None)
    if function is None:
        return None
    function.restype = ctypes.c_size_t
    buffer = ctypes.create_string_buffer(1 << 16)
    function(buffer, ctypes.c_size_t(len(buffer)))
    report: dict[str, Any] = json.loads(buffer.value)
    return report


def leave() -> None:
    """Writes what this process has delegated, for the server to add up."""
    if _settled != os.getpid():
        return
    report = _report()
    if report is not None:
        path = os.path.join(os.environ["COMPAT_SCRATCH"], f"{os.getpid()}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file)


def _settle(rank: int, size: int) -> None:
    global _settled  # noqa: PLW0603  # one configuration for each process, as in real life
    if _settled != os.getpid() and WAY != "stock":
        _settled = os.getpid()
        os.environ["SWITCHML_CONFIG"] = _config(rank, size)
        if size == 1:  # a lone rank has nothing to sum, and delegates only where it is told to
            os.environ["SWITCHML_ALLOW_FAKE_SUMS"] = "1"
        multiprocessing.util.Finalize(None, leave, exitpriority=0)


def _wrap(group: Any) -> None:
    """Lets every construction of a process group settle its process first."""
    original = group.__init__

    def init(self: Any, store: Any, rank: int, size: int, *args: Any, **kwargs: Any) -> None:
        _settle(rank, size)
        original(self, store, rank, size, *args, **kwargs)

    group.__init__ = init


class _Proxy(type):
    """The class ProcessGroupGloo as the tests see it: what it makes has the plugin in front."""

    original: Any
    making = False

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if _Proxy.making:
            return _Proxy.original(*args, **kwargs)
        store, rank, size, *rest = args
        options = rest[0] if rest and not isinstance(rest[0], dt.timedelta) else None
        timeout = rest[0] if rest else kwargs.get("timeout", dt.timedelta(minutes=30))
        place = types.SimpleNamespace(
            store=store, group_rank=rank, group_size=size, timeout=timeout,
            global_ranks_in_group=[], group_id="",
        )  # fmt: skip
        _Proxy.making = True
        try:
            plugin = importlib.import_module("torch_switchml")
            return plugin._create(place, options)  # what torch itself calls
        finally:
            _Proxy.making = False

    def __getattr__(cls, name: str) -> Any:
        return getattr(_Proxy.original, name)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Proxy.original)


class _Gloo(metaclass=_Proxy):
    pass


def _rename(module: Any, public: Any) -> None:
    """Lets the name gloo stand for the plugin, since the tests know no other."""
    names = {"gloo": "switchml"}
    backs = {"switchml": "gloo"}

    def renamed(function: Any, *, result: bool = False) -> Any:
        position = (
            list(inspect.signature(function).parameters).index("backend") if not result else 0
        )

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if result:
                answer = function(*args, **kwargs)
                return backs.get(answer, answer)
            given = list(args)
            if len(given) > position:
                given[position] = names.get(given[position], given[position])
            elif "backend" in kwargs:
                kwargs["backend"] = names.get(kwargs["backend"], kwargs["backend"])
            return function(*given, **kwargs)

        return wrapper

    for name, is_result in {
        "init_process_group": False,
        "new_group": False,
        "get_backend": True,
    }.items():
        function = renamed(getattr(module, name), result=is_result)
        setattr(module, name, function)
        setattr(public, name, function)
    _Proxy.original = module.ProcessGroupGloo
    public.ProcessGroupGloo = _Gloo


def install() -> None:
    """Loads the graft or the plugin, then torch."""
    if WAY in {"graft", "disabled"}:
        ctypes.CDLL(os.environ["COMPAT_GRAFT"], ctypes.RTLD_GLOBAL)
    if WAY == "disabled":
        os.environ["SWITCHML_DISABLE"] = "1"
    module = importlib.import_module(HOOK)
    _wrap(module.ProcessGroupGloo)
    if WAY == "plugin":
        importlib.import_module("torch_switchml")
        _rename(module, importlib.import_module("torch.distributed"))
