"""Rank in the interpreter under test: does the steps of its job and reports each.

Runs under Python 3.6 and newer with any torch since 1.7, with or without numpy, and imports nothing
of this package. It reads its job from stdin as JSON, and writes a line for every finished step at
once, so that the steps before a crash are known.
"""

import contextlib
import datetime as dt
import importlib
import json
import math
import os
import sys
import tempfile
from typing import Any

MARK = "switchml-verify: "
SIZES = (1, 255, 256, 257, 100000)  # elements: around the 256 of a packet, and many packets
FALLBACKS = {"dtype": 1, "op": 1, "group": 1}


class Stop(Exception):  # noqa: N818  # ends the steps, and is no error
    """A finding without which the next steps make no sense."""


class VerifyingRank:
    """A rank: its job, its torch, and what it has called. Most methods are steps."""

    def __init__(self, job: "dict[str, Any]") -> None:
        import torch
        import torch.distributed as dist

        tempfile.tempdir = os.getcwd()  # the next import leaves a directory there
        # DistributedDataParallel imports this module. Imported later, its default arguments would
        # keep the group, and Gloo's threads, until after the interpreter's end.
        with contextlib.suppress(ImportError):
            importlib.import_module("torch.distributed.nn")
        plugin = job["variant"] == "plugin"
        self.backend = "switchml" if plugin else "gloo"
        switchml = importlib.import_module(
            "torch_switchml" if plugin else "torch.distributed.switchml"
        )  # type: Any
        self.torch, self.dist, self.report = torch, dist, switchml.report
        self.work = importlib.import_module("verify_work")  # type: Any  # beside this file
        self.rank, self.world, self.equal = job["rank"], job["world"], job["equal"]
        self.timeout = dt.timedelta(seconds=job["timeout"])
        self.groups = 0
        self.held = True  # until a step finds a problem
        self.before = self.report()

    def init(self) -> Any:  # the report
        """Make a group, and return the report."""
        self.groups += 1
        store = self.dist.FileStore(os.path.join("..", f"store-{self.groups}"), self.world)
        self.dist.init_process_group(
            self.backend, store=store, rank=self.rank, world_size=self.world, timeout=self.timeout
        )
        return self.report()

    def everyone(self, numel: int, dtype: Any) -> "list[Any]":  # torch.dtype
        """Return the same random tensors of all ranks on each rank."""
        tensors = []
        for rank in range(self.world):
            generator = self.torch.Generator().manual_seed(numel + (0 if self.equal else rank))
            if dtype.is_floating_point:
                tensors.append(self.torch.randn(numel, generator=generator).to(dtype))
            else:
                whole = self.torch.randint(-(10**6), 10**6, (numel,), generator=generator)
                tensors.append(whole.to(dtype))
        return tensors

    def bound(self, tensors: "list[Any]") -> float:
        """Return the largest error of fixed point and float32; 0 for integers."""
        if not tensors[0].dtype.is_floating_point:
            return 0.0
        largest = max(float(tensor.abs().max()) for tensor in tensors)
        step = self.world * 2.0 ** math.frexp(largest)[1] / (2**31 - 1)
        return float(self.world * (0.5 * step + self.world * largest * 2.0**-23))

    def sums(self, dtype: Any, sizes: "tuple[int, ...]" = SIZES) -> "dict[str, Any]":
        """Sum tensors of several sizes, and compare them with the exact sums."""
        problems, worst, allowed = [], 0.0, 0.0
        for numel in sizes:
            tensors = self.everyone(numel, dtype)
            mine = tensors[self.rank].clone()
            self.dist.all_reduce(mine)
            exact = sum(tensor.double() for tensor in tensors)
            error, bound = float((mine.double() - exact).abs().max()), self.bound(tensors)
            if not error <= bound:  # also for NaN
                problems.append(f"{numel} elements: wrong by {error:.3g}, allowed is {bound:.3g}")
            elif error >= worst:
                worst, allowed = error, bound
        largest = f"wrong by at most {worst:.1g}, allowed is {allowed:.1g}" if worst else "exact"
        return {"problems": problems, "found": f"{', '.join(map(str, sizes))} elements; {largest}"}

    def destroy(self) -> None:
        """Destroy all groups.

        While torch 2.6 destroys a group, it waits for Gloo's threads with the GIL held, and they
        wait for the GIL, unless Python itself holds the object that owns the threads.
        """
        world = getattr(self.dist.distributed_c10d, "_world", None)
        groups = getattr(world, "pg_map", ())
        cpu = self.torch.device("cpu")
        held = [group._get_backend(cpu) for group in groups]  # there is no public name
        self.dist.destroy_process_group()
        held.clear()

    def matmul(self) -> "dict[str, Any]":
        """Check a product of matrices."""
        return dict(self.work.matmul(self.torch))

    def svd(self) -> "dict[str, Any]":
        """Check a singular value decomposition."""
        return dict(self.work.svd(self.torch))

    def train(self) -> "dict[str, Any]":
        """Train on all ranks, and compare with the same training on this rank alone.

        Some releases of torch crash at the exit of a process that has trained.
        """
        before, work = self.report()["calls"], self.work
        inputs = self.everyone(work.STEPS * work.FEATURES, self.torch.float32)
        parallel = self.torch.nn.parallel.DistributedDataParallel
        together = work.learnt(self.torch, [inputs[self.rank]], parallel)
        calls = self.report()["calls"] - before
        problems = work.differs(together, work.learnt(self.torch, inputs))
        found = f"{work.STEPS} steps, {calls} allreduces delegated"
        return {"problems": problems, "found": found}

    def gloo(self) -> "dict[str, Any]":
        """Check a group that may not delegate."""
        os.environ["SWITCHML_DISABLE"] = "1"
        state = self.init()
        del os.environ["SWITCHML_DISABLE"]
        torch = self.torch
        equal, self.equal = self.equal, False
        done = [self.sums(dtype) for dtype in (torch.float32, torch.int32)]
        self.equal = equal
        problems = done[0]["problems"] + done[1]["problems"]
        calls = 2 * len(SIZES)
        now = self.report()
        if state["delegating"] or now["calls"] or now["fallbacks"]["group"] != calls:
            summary = f"{now['calls']} delegated, {now['fallbacks']['group']} left to Gloo"
            problems.append(f"{calls} allreduces of a group that may not delegate: {summary}")
        self.destroy()
        return {"problems": problems, "found": f"{calls} sums of float32 and int32 by Gloo"}

    def delegate(self) -> "dict[str, Any]":
        """Make a group that must delegate, if all ranks passed the steps before."""
        store = self.dist.FileStore(os.path.join("..", "held"), self.world)
        store.set_timeout(self.timeout)
        store.set(str(self.rank), str(self.held))
        if {store.get(str(rank)) for rank in range(self.world)} != {b"True"}:
            raise Stop("without SwitchML something is wrong already")
        state = self.before = self.init()
        if not state["delegating"]:
            raise Stop(decision(state) or "the group did not join: the report names none")
        return {"found": decision(state)}

    def float32(self) -> "dict[str, Any]":
        """Check sums of float32, within the bound of fixed point."""
        return self.sums(self.torch.float32)

    def int32(self) -> "dict[str, Any]":
        """Check sums of int32, which are exact."""
        return self.sums(self.torch.int32)

    def counters(self) -> "dict[str, Any]":
        """Check that the counters rose by the calls of float32 and int32."""
        calls, numbers = 2 * len(SIZES), 2 * 4 * sum(SIZES)
        now = self.report()
        counted = now["calls"] - self.before["calls"], now["bytes"] - self.before["bytes"]
        problems = []
        if counted != (calls, numbers):
            summary = f"counted are {counted[0]} calls and {counted[1]} bytes"
            problems.append(f"{calls} calls with {numbers} bytes were made, {summary}")
        return {"problems": problems, "found": f"{calls} calls, {numbers} bytes"}

    def fallback(self) -> "dict[str, Any]":
        """Check a type, an operation and a group that stay with Gloo."""
        torch, dist = self.torch, self.dist
        before = self.report()
        problems = [f"float64: {line}" for line in self.sums(torch.float64, (257,))["problems"]]
        tensors = self.everyone(257, torch.float32)
        mine = tensors[self.rank].clone()
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)
        if not torch.equal(mine, torch.stack(tensors).max(0)[0]):
            problems.append("MAX: not the largest values")
        alone = [dist.new_group([rank], timeout=self.timeout) for rank in range(self.world)]
        mine = tensors[self.rank].clone()
        dist.all_reduce(mine, group=alone[self.rank])
        if not torch.equal(mine, tensors[self.rank]):
            problems.append("a group of one rank: not its own values")
        now = self.report()
        counts = {name: now["fallbacks"][name] - old for name, old in before["fallbacks"].items()}
        counts = {name: count for name, count in counts.items() if count}
        if counts != FALLBACKS or now["calls"] != before["calls"]:
            wanted = "one each of dtype, op and group and no call"
            problems.append(f"{wanted} must be counted, not {counts} and "
                            f"{now['calls'] - before['calls']} calls")  # fmt: skip
        return {"problems": problems, "found": "float64, MAX, and a group of one rank use Gloo"}

    def again(self) -> "dict[str, Any]":
        """Destroy the group, and make another one."""
        self.destroy()
        before = self.report()
        state = self.init()
        if not state["delegating"]:
            raise Stop(decision(state))
        problems = self.sums(self.torch.float32, (257,))["problems"]
        if self.report()["calls"] != before["calls"] + 1:
            problems.append("the sum was not delegated")
        self.destroy()
        return {"problems": problems, "found": "the new group delegates"}


def decision(report: "dict[str, Any]") -> str:
    """Return the decision of the newest group; older versions report a whole line."""
    return str(report.get("decision", report["group"]))


def tell(step: str, answer: "dict[str, Any]") -> None:
    """Write one line, on a line of its own even if a library left one unfinished."""
    sys.stdout.write(f"\n{MARK}{json.dumps(dict(answer, step=step))}\n")
    sys.stdout.flush()


def main() -> None:
    """Do the steps, up to one without which the next make no sense."""
    job = json.loads(sys.stdin.readline())
    rank = VerifyingRank(job)
    for step in job["steps"]:
        try:
            answer = getattr(rank, step)()
        except Stop as found:
            answer = {"problems": [str(found)], "last": True}
        except Exception as error:  # noqa: BLE001  # any exception of torch is a finding
            answer = {"error": f"{type(error).__name__}: {error}".strip(), "last": True}
        tell(step, answer)
        rank.held &= not answer.get("problems") or "optional" in answer
        if answer.get("last"):
            break


if __name__ == "__main__":
    main()
