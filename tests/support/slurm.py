"""A SLURM of this machine alone: its controller and two nodes, as processes of a test."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patchgen.system.ports import free_port
from support.waiting import ENOUGH, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NODES = ("hx0", "hx1")
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
_SYSTEM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
# Runs a program that takes another file for /etc/hosts.
_KNOWING = (
    "unshare", "--mount", "sh", "-ec", 'mount --bind "$1" /etc/hosts; shift; exec "$@"', "sh",
)  # fmt: skip
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge/socket
CryptoType=crypto/munge
StateSaveLocation={directory}/state
SlurmctldPidFile={directory}/slurmctld.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdPidFile={directory}/%n.pid
SlurmdLogFile={directory}/%n.log
SlurmdSpoolDir={directory}/spool-%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
{nodes}
PartitionName=all Nodes={names} Default=YES State=UP OverSubscribe=YES
"""


@dataclass(frozen=True)
class Slurm:
    """A running SLURM."""

    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make SLURM's programs use it."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        return {**kept, "PATH": _SYSTEM_PATH, "SLURM_CONF": str(self.directory / "slurm.conf")}

    def srun(
        self, *command: str | Path, cwd: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs `srun` with these arguments; `--time` ends what hangs."""
        return subprocess.run(
            ["srun", "--time=5", *map(str, command)], cwd=cwd,
            env={**self.environment, **(env or {})},
            capture_output=True, text=True, check=False, timeout=3 * ENOUGH,
        )  # fmt: skip


@contextlib.contextmanager
def running() -> Iterator[Slurm]:
    """Starts SLURM, and ends all of its processes."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_SYSTEM_PATH) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(missing) or 'nothing else'}: make test-cluster")
    # Its services refuse directories that others cannot enter, as pytest's are.
    with tempfile.TemporaryDirectory(prefix="slurm-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "state").mkdir()
        for node in NODES:
            (directory / f"spool-{node}").mkdir()
        slurm = Slurm(directory)
        _start_munge(stack, slurm)
        (directory / "slurm.conf").write_text(_configuration(directory))
        configuration = str(directory / "slurm.conf")
        _start(stack, slurm, "slurmctld", "-D", "-f", configuration)
        names = directory / "hosts"
        names.write_text("".join(f"127.0.0.1 {name}\n" for name in ("localhost", *NODES)))
        for node in NODES:
            service = ["slurmd", "-D", "-N", node, "-f", configuration]
            _start(stack, slurm, *_KNOWING, str(names), *service)
        until(lambda: _idle(slurm))
        yield slurm


def _configuration(directory: Path) -> str:
    host = socket.gethostname().partition(".")[0]
    nodes = [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=2 "
        "RealMemory=2000"
        for node in NODES
    ]
    return _CONFIGURATION.format(
        host=host, controller=free_port(), directory=directory,
        nodes="\n".join(nodes), names=",".join(NODES),
    )  # fmt: skip


def _start_munge(stack: contextlib.ExitStack, slurm: Slurm) -> None:
    """Starts the service that signs the messages of SLURM."""
    place = slurm.directory / "munge"
    place.mkdir()
    place.chmod(0o711)
    key = slurm.directory / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    options = [f"--{option}={place / name}" for option, name in files.items()]
    process = _start(
        stack, slurm, "munged", "--foreground", "--force", f"--key-file={key}", *options
    )
    until((place / "socket").exists, process)


def _start(stack: contextlib.ExitStack, slurm: Slurm, *command: str) -> subprocess.Popen[bytes]:
    """A service, which is ended with the stack, and with it what it has started."""
    name = next(word for word in command if word in PROGRAMS)
    log = stack.enter_context((slurm.directory / f"{name}.out").open("ab"))
    process = subprocess.Popen(
        command, env=slurm.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        start_new_session=True,
    )  # fmt: skip
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(ENOUGH)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _idle(slurm: Slurm) -> bool:
    told = subprocess.run(
        ["sinfo", "--noheader", "--Node", "--format=%N %T"],
        env=slurm.environment, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    return {f"{node} idle" for node in NODES} <= set(told.splitlines())
