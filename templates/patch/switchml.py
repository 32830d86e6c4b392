"""SwitchML in this torch: whether it is patched, its flags, the newest group, and the counters.

``python -m torch.distributed.switchml`` prints the report of a fresh process.
"""

import ctypes
import json

import torch


def _function():
    """The report function of the patched process group, or None in an unpatched torch.

    A graft is in the global scope; a patched torch is reached through the extension module, whose
    handle also finds the symbols of the libraries that it needs.
    """
    for path in (None, torch._C.__file__):
        try:
            function = ctypes.CDLL(path).switchml_torch_report
        except (AttributeError, OSError):
            continue
        function.restype = ctypes.c_size_t
        function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        return function
    return None


def is_patched():
    """True where this process's Gloo process group can delegate to SwitchML."""
    return _function() is not None


def report():
    """The state of this process as a dict, or None in an unpatched torch.

    flags: the backend flags that the patch was made with, as one string.
    simulator: whether the client library is the simulator.
    protocol: version of what ranks tell each other.
    client: what the client library says about how it was made, such as its mends.
    delegating: whether a process group delegates at the moment.
    failure: why SwitchML was given up, or an empty string.
    group: what the newest process group agreed on, and why, in a line. The same as fields:
    world_size: its number of ranks; 0 where there was none.
    decision: where its allreduces go, in words.
    reason: why they stay with Gloo, or an empty string.
    step: the step at which they did not agree, or an empty string: controller (which this rank did
    not reach), offer, start, probe (which did not end on this rank), sums (which it has),
    measure (SWITCHML_MIN_NUMEL=auto found that Gloo is faster), failover (ranks that could not be
    connected).
    objection: what this rank itself objected to, or an empty string.
    offer: the settings of this rank, by name, as text; empty where it could not use them.
    terms: the settings that its ranks agreed on, by name, as text; empty where they did not.
    measured: what SWITCHML_MIN_NUMEL=auto has measured: for each number of elements (numel) the
    seconds of an allreduce through SwitchML and through Gloo, on the slowest rank.
    filled_in: what this rank has filled into its switchml.cfg.
    calls, bytes: allreduces, and bytes per rank, that SwitchML has summed: 4 for each element,
    whatever its type.
    packets: packets that the client library has counted in this process: sent, answers, wrong
    (came, and were no answer) and timeouts; None where the library cannot tell.
    fallbacks: allreduces left to Gloo, by reason: group (it does not delegate), op and dtype (none
    that it delegates), tensors (several that are summed with each other), numel (below
    SWITCHML_MIN_NUMEL, or empty).
    failover: what happened after the context failed, with SWITCHML_FAILOVER=1: how many times
    (failovers), after how many of them SwitchML was used again (returns), why the newest time
    (reason), jobs under way that were summed again (redone), allreduces that were summed over Gloo
    (calls), and for how long (seconds).
    """
    function = _function()
    if function is None:
        return None
    size = 4096
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = function(buffer, size)
        if needed <= size:
            return json.loads(buffer.value.decode("utf-8", "replace"))
        size = needed


if __name__ == "__main__":
    print(json.dumps(report(), indent=2))
