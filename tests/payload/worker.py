"""Rank of a test: loads the graft or the plugin, runs a case, prints its result as JSON.

A case is a function of `cases`, or of another module: MODULE:FUNCTION. Where it returns nothing,
its groups end after it, and the result is the report. With `--serve DESCRIPTOR` instead of a case,
this is a server of ranks, see `forking`.

Runs under the interpreter of the torch in use (Python 3.9 or newer), not under pytest's.
"""

import ctypes
import gc
import importlib
import importlib.util
import json
import os
import sys

if os.environ.get("SWITCHML_TEST_GRAFT"):
    ctypes.CDLL(os.environ["SWITCHML_TEST_GRAFT"], ctypes.RTLD_GLOBAL)

gc.disable()  # until a case runs: collections take a fifth of an import of torch, and free little
import torch  # noqa: E402

# For `support`, which pytest's side uses too.
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RELEASE = int(torch.__version__.partition(".")[0])


def load_report_module():
    if os.environ.get("SWITCHML_TEST_BACKEND") == "switchml":
        return importlib.import_module("torch_switchml")
    spec = importlib.util.spec_from_file_location("switchml", os.environ["SWITCHML_TEST_REPORT"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def enter_host():
    """Enter the network namespace of another process, even if another user has made it."""
    host = os.environ.get("SWITCHML_TEST_HOST")
    if host is None:
        return
    enter = ctypes.CDLL(None, use_errno=True).setns
    for kind in ("user", "net"):
        theirs = f"{host}/{kind}"
        if os.readlink(theirs) != os.readlink(f"/proc/self/ns/{kind}"):
            with open(theirs) as namespace:
                if enter(namespace.fileno(), 0) != 0:
                    raise OSError(ctypes.get_errno(), f"cannot enter {theirs}")


def import_before_groups():
    if RELEASE >= 2:
        # Imported after a group was made, as by DistributedDataParallel, it keeps that group, whose
        # threads may then abort the process at its end.
        importlib.import_module("torch.distributed.nn")


def leave_torch_whole():
    """Skip libtorch's destructors at the end of a forked rank: half of a short rank's time.

    Libraries that are loaded later, such as the plugin, run their destructors. A graft is loaded
    before torch; its destructors run in the ranks that are new interpreters.
    """
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)  # passes the exit code


def import_what_cases_use():
    """Import modules once for all ranks of a server.

    A server of few ranks leaves the slowest modules to the ranks that use them.
    """
    load_report_module()
    names = ["torch.nn.parallel", "torch.optim"]
    if RELEASE >= 2 and "SWITCHML_TEST_FEW_RANKS" not in os.environ:
        names += ["torch.profiler", "torch._dynamo"]  # DistributedDataParallel imports them
    for name in names:
        importlib.import_module(name)


def main():
    gc.enable()
    enter_host()
    torch.set_num_threads(1)
    import_before_groups()
    arguments = json.loads(os.environ.get("SWITCHML_TEST_ARGUMENTS", "{}"))
    module, _, case = sys.argv[1].rpartition(":")
    function = getattr(importlib.import_module(module or "cases"), case)
    cases, switchml = importlib.import_module("cases"), load_report_module()
    result = function(switchml, **arguments)
    result = dict(cases.finish(switchml) if result is None else result, torch=torch.__version__)
    cases.HELD.clear()
    sys.stdout.write("RESULT " + json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    forked = sys.argv[1] == "--serve"
    if forked:
        leave_torch_whole()
        import_before_groups()
        import_what_cases_use()
        importlib.import_module("forking").serve(int(sys.argv[2]))
        if hasattr(torch.distributed, "set_debug_level_from_env"):  # else it is read when asked for
            torch.distributed.set_debug_level_from_env()
    main()
    if forked:
        importlib.import_module("forking").leave()
        ctypes.PyDLL(None).exit(0)  # PyDLL keeps the GIL, which destructors need
