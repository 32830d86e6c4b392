"""Starts the ranks, in the interpreter whose torch they use, and ends with their exit code.

A program of its own: its argument is a file with the job in JSON. It runs under Python 3.6 and
newer with any torch since 1.7, and imports nothing of this package. Where torch has an elastic
launcher, the one of torchrun, that starts the ranks; before torch 1.9 this program does.
"""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

GRACE = 30.0  # seconds that a rank has to end after it was told to: as much as torchrun gives
POLL = 0.05  # seconds
# What a rank writes goes into pipes of its own; its process and its arguments stay as they are.
REDIRECTED = 'exec "$@" >"$0/$RANK.out" 2>"$0/$RANK.err"'


class EndSignal(Exception):  # noqa: N818  # no error of the program
    """Signal that told this program to end."""

    def __init__(self, number: int) -> None:
        self.number = number


def elastic_launcher() -> Any:  # a module
    """Launcher that torchrun uses, or None."""
    try:
        from torch.distributed.launcher import api
    except ImportError:
        return None
    return api


def start_by_torch(api: Any, job: "dict[str, Any]", command: "list[str]") -> "dict[int, int]":
    """Starts the ranks as torchrun does; returns the exit codes of those that failed, in order."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    settings = {"rank": job["node"]} if job["backend"] == "static" else {"is_host": not job["node"]}
    host = "[{}]" if ":" in job["first"] else "{}"
    config = api.LaunchConfig(
        min_nodes=job["nodes"],
        max_nodes=job["nodes"],
        nproc_per_node=job["workers"],
        run_id="switchml-patch",
        # A host name may resolve to nothing, or to an address that nobody listens on.
        rdzv_backend=job["backend"],
        rdzv_endpoint="{}:{}".format(host.format(job["first"]), job["port"]),
        rdzv_configs=settings,
        max_restarts=job["restarts"],
        monitor_interval=0.1,
    )
    if hasattr(config, "local_addr"):  # else torch takes the machine's name
        config.local_addr = job["address"]
    try:
        api.elastic_launch(config, command[0])(*command[1:])
    except ChildFailedError as error:
        failed = sorted(error.failures.items(), key=lambda item: item[1].timestamp)
        return {rank: failure.exitcode for rank, failure in failed}
    except Exception as error:
        number = getattr(error, "sigval", None)  # of SignalException, which torch 1.9 has not
        if number is None:
            raise
        raise EndSignal(int(number)) from error
    return {}


def environments(job: "dict[str, Any]") -> "list[dict[str, str]]":
    """Variables that torchrun adds to the environment of each rank."""
    shared = {
        "MASTER_ADDR": job["first"],
        "MASTER_PORT": str(job["port"]),
        "WORLD_SIZE": str(job["world"]),
        "LOCAL_WORLD_SIZE": str(job["workers"]),
    }
    return [
        dict(shared, RANK=str(job["offset"] + rank), LOCAL_RANK=str(rank))
        for rank in range(job["workers"])
    ]


def start_directly(command: "list[str]", environs: "list[dict[str, str]]") -> "dict[int, int]":
    """Starts the ranks without torch's launcher; returns exit codes as `start_by_torch`."""

    def end_program(number: int, _frame: Any) -> None:
        raise EndSignal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end_program)
    ranks = []  # type: list[subprocess.Popen[bytes]]
    try:
        for own in environs:
            ranks.append(subprocess.Popen(command, env=dict(os.environ, **own)))  # noqa: PERF401
        while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
            time.sleep(POLL)
    except EndSignal as error:
        end_ranks(ranks, error.number)
        raise
    codes = [(environ.get("RANK", "0"), rank.poll()) for environ, rank in zip(environs, ranks)]
    failed = {int(number): code for number, code in codes if code}
    end_ranks(ranks, signal.SIGTERM)
    return failed


def end_ranks(ranks: "list[subprocess.Popen[bytes]]", number: int) -> None:
    """Ends the ranks, and kills those that go on."""
    for rank in ranks:
        if rank.poll() is None:
            rank.send_signal(number)
    deadline = time.monotonic() + GRACE
    for rank in ranks:
        with contextlib.suppress(subprocess.TimeoutExpired):
            rank.wait(max(0.0, deadline - time.monotonic()))
        if rank.poll() is None:
            rank.kill()
            rank.wait()


def main() -> int:
    """Runs the job of the argument; returns the exit code of the first rank that failed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # without a traceback, until there are ranks
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    directory = job["directory"]
    tempfile.tempdir = directory  # where torch's launcher leaves a directory
    redirected = ["/bin/sh", "-c", REDIRECTED, directory, *job["command"]]
    # Torch's launchers of two hosts end one after the other, which their Store reports with stacks.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    api = elastic_launcher() if job["workers"] else None
    os.environ.clear()
    os.environ.update(job["environ"])
    logging.disable(logging.CRITICAL)  # of the launcher: the exit codes tell the same
    try:
        if api is not None:
            failed = start_by_torch(api, job, redirected)
        elif job["workers"] and job["restarts"]:
            sys.stderr.write("torch before 1.9 cannot restart ranks; drop --max-restarts\n")
            return 1
        elif job["workers"]:
            failed = start_directly(redirected, environments(job))
        else:
            failed = start_directly(job["command"], [{}])
    except EndSignal as error:
        return 128 + error.number
    with open(os.path.join(directory, "failed.json"), "w", encoding="ascii") as file:
        json.dump(failed, file)
    codes = [code if code >= 0 else 128 - code for code in failed.values()]
    return codes[0] if codes else 0


if __name__ == "__main__":
    _code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_code)  # the ranks have ended, and to take torch apart takes a third of a second
