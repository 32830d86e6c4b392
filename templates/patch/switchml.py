"""SwitchML in this torch: whether it is patched, its flags, the newest group, and counters.

``python -m torch.distributed.switchml`` prints the report of a fresh process.
"""

import ctypes
import json

import torch

# What the report has where the delegate library cannot be opened, unless the glue says more.
_CLOSED = {
    "flags": "", "simulator": False, "client": "", "sources": "", "delegating": False,
    "failure": "", "decision": "", "objection": "", "late": False,
    "capabilities": {}, "terms": {}, "filled_in": "", "calls": 0, "bytes": 0,
    "packets": None, "fallbacks": dict.fromkeys(("group", "op", "dtype", "tensors", "numel"), 0),
    "failover": {
        "failovers": 0, "returns": 0, "reason": "", "redone": 0, "calls": 0, "seconds": 0.0,
    },
}  # fmt: skip


def _function():
    """Return the report function of the patched process group; None in an unpatched torch.

    A graft is in the global scope. A patched torch is reached through the extension module, whose
    handle also finds symbols of the libraries that it depends on.
    """
    for path in (None, torch._C.__file__):
        try:
            function = ctypes.CDLL(path).switchml_delegate_report
        except (AttributeError, OSError):
            continue
        function.restype = ctypes.c_size_t
        function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        return function
    return None


def is_patched():
    """Return whether this process's Gloo process group can delegate to SwitchML."""
    return _function() is not None


def report():
    """Return the state of this process as a dict; None in an unpatched torch.

    docs/runtime.md of switchml-patch has a table of its keys. `step` is the step at which the ranks
    of the newest group did not agree, empty if they agreed, and `passed` are the steps before it.
    `problem` is why the delegate library could not be opened; empty if it could.
    """
    function = _function()
    if function is None:
        return None
    size = 4096
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = function(buffer, size)
        if needed <= size:
            return complete(buffer.value)
        size = needed


def complete(content):
    """Return the report that the glue has written, with all keys."""
    written = json.loads(content.decode("utf-8", "replace"))
    return {**_CLOSED, "objection": written.get("problem", ""), **written}


if __name__ == "__main__":
    print(json.dumps(report(), indent=2))
