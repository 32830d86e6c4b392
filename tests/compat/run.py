"""Runs PyTorch's own tests of the Gloo process group, each test in a process of its own.

    run.py --python PYTHON --source TREE --way stock -o stock.json
    run.py ... --way graft --graft LIB.so --switchml-home DIR -o graft.json

TREE is the source of PYTHON's torch; without it, those tests run that are in torch itself. Needs
nothing but the standard library, so that it runs where the torch runs. The tests need expecttest
and hypothesis; PYTHONPATH is passed on.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = ("stock", "graft", "disabled", "plugin")
MODULES = (
    "test_c10d",
    "test_c10d_gloo",
    "test_c10d_spawn",
    "test_c10d_spawn_gloo",
    "test_c10d_object_collectives",
    "test_c10d_pypg",
    "test_pg_wrapper",
    "test_distributed_fork",
    "test_distributed_spawn",
    "of_the_wheel",
)
PROBE = """
import json, platform, torch
print(json.dumps({"torch": torch.__version__, "commit": torch.version.git_version,
                  "python": platform.python_version()}))
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with a torch")
    parser.add_argument("--source", help="the source of that torch; default: the wheel's own tests")
    parser.add_argument("--way", choices=WAYS, required=True)
    parser.add_argument("--graft", help="LIB.so of switchml-patch graft (ways graft, disabled)")
    parser.add_argument("--switchml-home", help="the simulator (all ways but stock)")
    parser.add_argument("-o", "--output", required=True, help="the results, as JSON")
    parser.add_argument("--logs", help="directory for what each test prints (default: thrown away)")
    parser.add_argument("--module", action="append", help="a test module; default: all that exist")
    parser.add_argument("--only", action="append", default=[], help="pattern of Class.test")
    parser.add_argument("--start", choices=("fork", "spawn"), default="fork", help="of the ranks")
    parser.add_argument("--limit", type=float, default=180, help="seconds for a test")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each test")
    given = parser.parse_args()
    if given.way in {"graft", "disabled"} and not given.graft:
        parser.error(f"--way {given.way} needs --graft")
    if given.way != "stock" and not given.switchml_home:
        parser.error(f"--way {given.way} needs --switchml-home")
    return given


def environment(given: argparse.Namespace, logs: str) -> dict[str, str]:
    dropped = ("SWITCHML_", "TORCH_", "GLOO_", "COMPAT_")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)} | {
        "BACKEND": "gloo",
        "COMPAT_GRAFT": os.path.abspath(given.graft) if given.graft else "",
        "COMPAT_HOME": os.path.abspath(given.switchml_home) if given.switchml_home else "",
        "COMPAT_LIMIT": str(given.limit),
        "COMPAT_LOGS": logs,
        "COMPAT_REPEAT": str(given.repeat),
        "COMPAT_START": given.start,
        "COMPAT_WAY": given.way,
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "WORLD_SIZE": "3",  # PyTorch's own runner takes 3 without a GPU
    }


def run_module(given: argparse.Namespace, path: str, environ: dict[str, str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="compat-") as directory:
        results = os.path.join(directory, "results.jsonl")
        command = [given.python, os.path.join(HERE, "server.py"), path, results, *given.only]
        with subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL) as server:
            try:
                code = server.wait()
            finally:
                server.terminate()
        answers: dict[str, Any] = {}
        if os.path.exists(results):
            with open(results, encoding="utf-8") as file:
                for line in file:
                    answer = json.loads(line)
                    answers[answer.pop("test")] = answer
    return {"code": code, "tests": answers}


def main() -> None:
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    torch = json.loads(subprocess.check_output([given.python, "-c", PROBE], cwd="/", text=True))
    directory = os.path.join(given.source, "test", "distributed") if given.source else HERE
    modules = given.module or [
        name for name in MODULES if os.path.exists(os.path.join(directory, name + ".py"))
    ]
    record: dict[str, Any] = {
        **torch,
        "tests": os.path.basename(os.path.abspath(given.source)) if given.source else "torch",
        "way": given.way,
        "start": given.start,
        "limit": given.limit,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "modules": {},
    }
    with tempfile.TemporaryDirectory(prefix="compat-logs-") as thrown_away:
        logs = os.path.abspath(given.logs or thrown_away)
        os.makedirs(logs, exist_ok=True)
        for name in modules:
            sys.stderr.write(f"{given.way}: {name}\n")
            path = os.path.join(directory, name + ".py")
            record["modules"][name] = run_module(given, path, environment(given, logs))
            with open(given.output, "w", encoding="utf-8") as file:
                json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
