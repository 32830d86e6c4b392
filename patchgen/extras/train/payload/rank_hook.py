"""Import hook in each rank, which reports what SwitchML did. Named switchml_run.py.

Runs under Python 3.6 and newer with any torch since 1.7, and imports nothing of this package. Until
torch.distributed is imported, it only writes a file that marks the process. Then it wraps the
functions that make and destroy process groups: they set the rank's own variables before its group
is made, load the plugin if the job uses it, and write SwitchML's counters to a file.
"""

import atexit
import contextlib
import functools
import importlib
import importlib.util
import inspect
import json
import os
import resource
import sys
from typing import Any, Callable
from urllib.parse import parse_qs, urlsplit

JOB = "SWITCHML_RUN"  # names the file of the job
CONFIG = "SWITCHML_CONFIG"
C10D = "torch.distributed.distributed_c10d"
PLUGIN = "torch_switchml_backend"  # activates this module where sitecustomize does not
REPORTS = "ranks"  # directory of the reports, in the directory of the job


def place(arguments: "dict[str, Any]", environ: "dict[str, str]") -> int:
    """Return the rank that init_process_group will have; -1 if it is not known."""
    given = arguments.get("rank")
    if given is not None and given >= 0:
        return int(given)
    query = parse_qs(urlsplit(arguments.get("init_method") or "env://").query)
    texts = [*query.get("rank", []), environ.get("RANK", "")]
    return next((int(text) for text in texts if text.isdigit()), -1)


class HookedRank:
    """Rank of the job in this process, with its reports."""

    def __init__(self, job: "dict[str, Any]") -> None:
        self.job = job
        self.pid = 0  # process that made a group; its forks do not report
        self.record = {}  # type: dict[str, Any]
        self.inherited = {name: os.environ.get(name) for name in job["by_rank"]}
        self.c10d = None  # type: Any

    def wrap(self, c10d: Any) -> None:  # the module
        """Wrap functions of torch.distributed.distributed_c10d, in every module that has them."""
        root = os.path.realpath(os.path.dirname(os.path.dirname(c10d.__file__)))
        if root != self.job["root"]:
            self.write(f"other-{os.getpid()}.json", {"root": root})
            return
        self.c10d = c10d
        self.configure(place({}, dict(os.environ)))  # some scripts read it before they make a group
        self.surround("init_process_group", self.initialize)
        self.surround("destroy_process_group", self.destroy)
        if hasattr(getattr(c10d, "ProcessGroup", None), "_register_backend"):
            self.surround("_register_backend", self.register, c10d.ProcessGroup)

    def surround(self, name: str, ours: "Callable[..., Any]", of: Any = None) -> None:
        """Wrap a function of the module, or of a class. `ours` gets the original as argument."""
        original = getattr(of or self.c10d, name)

        @functools.wraps(original)
        def surrounding(*args: Any, **named: Any) -> Any:
            return ours(original, *args, **named)

        for holder in [of] if of else [*sys.modules.values()]:
            if of or getattr(holder, "__dict__", {}).get(name) is original:
                setattr(holder, name, surrounding)

    def register(self, original: "Callable[..., Any]", *args: Any, **named: Any) -> Any:
        """Note which module registers a backend with a process group, if it is not torch's own."""
        caller = sys._getframe(2)  # type: Any
        caller = caller.f_back if caller.f_globals.get("__name__") == PLUGIN else caller
        maker = caller.f_globals.get("__name__", C10D)
        if maker != C10D:
            self.write(f"maker-{os.getpid()}.json", {"maker": maker})
        return original(*args, **named)

    def initialize(self, original: "Callable[..., Any]", *args: Any, **named: Any) -> Any:
        """Prepare the process, call init_process_group, and report the group."""
        try:
            given = inspect.signature(original).bind(*args, **named).arguments
        except TypeError:
            return original(*args, **named)  # raises the error
        self.configure(place(given, dict(os.environ)))
        if hasattr(self.c10d, "BackendConfig"):
            # DistributedDataParallel imports it. If that were after the group is made, its default
            # arguments would keep the group, and Gloo's threads would abort at exit.
            with contextlib.suppress(ImportError):
                importlib.import_module("torch.distributed.nn")
        if self.job["variant"] == "plugin":  # not every torch loads it by itself
            importlib.import_module(PLUGIN).register()
        answer = original(*args, **named)
        if getattr(self.c10d, "_use_torchcomms_enabled", bool)():
            self.write(f"maker-{os.getpid()}.json", {"maker": "torchcomms"})
        if self.pid != os.getpid():
            self.pid = os.getpid()
            self.record = {"outcomes": []}
            atexit.register(self.tell, final=True)
        self.record.update(rank=self.c10d.get_rank(), world=self.c10d.get_world_size())
        self.record["backend"] = str(self.c10d.get_backend())
        report = self.report()
        if report and report["group"]:
            # A torch patched by an older version reports no reason.
            outcome = {"group": report["group"], "reason": report.get("reason", "")}
            self.record["outcomes"].append(outcome)
        self.tell()
        return answer

    def destroy(self, original: "Callable[..., Any]", *args: Any, **named: Any) -> Any:
        """Call destroy_process_group, and report."""
        answer = original(*args, **named)
        self.tell()
        return answer

    def configure(self, rank: int) -> None:
        """Set the variables that differ by rank, except those that the script has set."""
        for name, values in self.job["by_rank"].items():
            if 0 <= rank < len(values) and os.environ.get(name) == self.inherited[name]:
                os.environ[name] = self.inherited[name] = values[rank]

    def report(self) -> "dict[str, Any] | None":
        """Return SwitchML's report of this process; None without SwitchML."""
        if self.job["variant"] == "plugin":
            module = sys.modules.get("torch_switchml")  # type: Any
        elif self.job["variant"] == "stock":
            module = None
        else:
            module = importlib.import_module("torch.distributed.switchml")
        return module.report() if module else None

    def tell(self, *, final: bool = False) -> None:
        """Write the report of this rank, in the process that made its group."""
        if self.pid == os.getpid():
            data = dict(self.record, pid=self.pid, final=final, report=self.report())
            self.write("{}-{}.json".format(data["rank"], self.pid), data)

    def mark(self, *, ended: bool = False) -> None:
        """Write a file that says that this process loaded the hook, or ended with it loaded."""
        rank = os.environ.get("RANK", "")
        started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
        data = {"hook": rank, "ended": ended, "started": started}
        self.write(f"hook-{rank}-{os.getpid()}.json", data)

    def write(self, name: str, data: "dict[str, Any]") -> None:
        """Write a file whole or not at all. The rank goes on if that fails."""
        path = os.path.join(self.job["directory"], REPORTS, name)
        with contextlib.suppress(OSError):
            with open(path + ".new", "w", encoding="ascii") as file:
                json.dump(data, file)
            os.replace(path + ".new", path)


class Finder:
    """Meta path finder that wraps torch.distributed once, when it is imported."""

    def __init__(self, rank: HookedRank) -> None:
        self.rank = rank

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """Return the spec of distributed_c10d with a loader that wraps the module; else None."""
        if name != C10D:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                self.rank.wrap(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


@functools.lru_cache(maxsize=None)  # Python 3.6 has no functools.cache
def activate() -> None:
    """Install the hook in this process, once, if it belongs to a job that still runs."""
    path = os.environ.get(JOB, "")
    if not os.path.exists(path):
        return
    with open(path, encoding="ascii") as file:
        rank = HookedRank(json.load(file))
    if C10D in sys.modules:
        rank.wrap(sys.modules[C10D])
    else:
        sys.meta_path.insert(0, Finder(rank))
    rank.mark()
    atexit.register(rank.mark, ended=True)
    leave = os._exit

    def leaving(status: int) -> None:
        rank.tell(final=True)
        rank.mark(ended=True)
        leave(status)

    os._exit = leaving  # type: ignore[assignment]
