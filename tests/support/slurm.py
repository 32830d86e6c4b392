"""A SLURM whose nodes are hosts of a test: its services, as processes."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from patchgen.system.ports import free_port
from support.cluster import Host
from support.waiting import ENOUGH, until

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
_SYSTEM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}({address})
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
    hosts: Sequence[Host]

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make SLURM's programs use it."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        return {**kept, "PATH": _SYSTEM_PATH, "SLURM_CONF": str(self.directory / "slurm.conf")}

    def run(
        self, *command: str | Path, cwd: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.hosts[0].command(*command), cwd=cwd, env={**self.environment, **(env or {})},
            capture_output=True, text=True, check=False, timeout=3 * ENOUGH,
        )  # fmt: skip


@contextlib.contextmanager
def running(hosts: Sequence[Host]) -> Iterator[Slurm]:
    """Run SLURM on hosts, with its controller on the first, while the block lasts."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_SYSTEM_PATH) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(missing) or 'nothing else'}: make test-cluster")
    # Its services refuse directories that others cannot enter, as pytest's are.
    with tempfile.TemporaryDirectory(prefix="slurm-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "state").mkdir()
        for host in hosts:
            (directory / f"spool-{host.name}").mkdir()
        slurm = Slurm(directory, hosts)
        _start_munge(stack, slurm)
        (directory / "slurm.conf").write_text(_configuration(slurm))
        configuration = str(directory / "slurm.conf")
        service = ["slurmctld", "-D", "-f", configuration]
        _start(stack, slurm, *hosts[0].command(*service))
        for host in hosts:
            service = ["slurmd", "-D", "-N", host.name, "-f", configuration]
            _start(stack, slurm, *host.command(*service))
        until(lambda: _idle(slurm))
        yield slurm


def _configuration(slurm: Slurm) -> str:
    controller, node = free_port(), free_port()
    nodes = [
        f"NodeName={host.name} NodeHostname={host.name} NodeAddr={host.address} Port={node} "
        "CPUs=2 RealMemory=2000"
        for host in slurm.hosts
    ]
    first = slurm.hosts[0]
    return _CONFIGURATION.format(
        host=first.name, address=first.address, controller=controller, directory=slurm.directory,
        nodes="\n".join(nodes), names=",".join(host.name for host in slurm.hosts),
    )  # fmt: skip


def _start_munge(stack: contextlib.ExitStack, slurm: Slurm) -> None:
    """Start the service that signs the messages of SLURM."""
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
    """Start a service, which the stack ends with its children."""
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
    output = slurm.run(
        "sinfo", "--noheader", "--Node", "--format=%N %T", cwd=slurm.directory
    ).stdout
    return {f"{host.name} idle" for host in slurm.hosts} <= set(output.splitlines())
