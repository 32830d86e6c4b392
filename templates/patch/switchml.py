"""SwitchML in this torch: whether it is patched, its flags, the newest group, and counters.

``python -m torch.distributed.switchml`` prints the report of a fresh process.
"""

import ctypes
import json

import torch

# All keys of the report, with their values before the delegate library is opened.
_DEFAULTS = {}


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

    docs/reference.md of switchml-patch has a table of its keys.
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
    """Return the report that the C++ has written, with all keys.

    The C++ that opens the delegate library writes few of them if it cannot open the library.
    """
    written = json.loads(content.decode("utf-8", "replace"))
    return {**_DEFAULTS, "objection": written.get("problem", ""), **written}


if __name__ == "__main__":
    print(json.dumps(report(), indent=2))
