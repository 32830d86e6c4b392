"""Rendezvous of the hosts of a job, in the words of torchrun."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.errors import OptionsError
from patchgen.extras.train.launchers import find_task
from patchgen.system.ports import split_address

if TYPE_CHECKING:
    from collections.abc import Mapping

STATIC, C10D = "static", "c10d"
DEFAULT_PORT = 29400
"""Port of an endpoint that names none, as in torchrun."""

_LIMIT = "join_timeout"  # torchrun's name for the time that hosts have to come
_DEFAULT_LIMIT = 600
_SECONDS = re.compile(r"[1-9][0-9]{0,6}")


@dataclass(frozen=True)
class Elastic:
    """Choices for torch's elastic launcher."""

    backend: str = STATIC
    """Backend of its rendezvous."""
    restarts: int = 0
    """Times that it starts the ranks again after one has failed."""


@dataclass(frozen=True)
class Rendezvous:
    """Place where the hosts of a job meet, and what this one brings."""

    nodes: int
    """Number of hosts."""
    node: int | None
    """Number of this host; None where the hosts are numbered once they have met."""
    endpoint: tuple[str, int]
    """Address of the first host, and the port on which it listens."""
    ranks: int
    """Ranks of this host."""
    elastic: Elastic
    name: str
    """Name of this host."""
    job: str = ""
    """Name of the job; hosts of another one are refused."""
    limit: int = _DEFAULT_LIMIT
    """Seconds that the others have to come."""


@dataclass(frozen=True)
class Request:
    """Options of a user about hosts; None leaves the choice to us."""

    nodes: int | None = None
    node: int | None = None
    endpoint: str | None = None
    ranks: int | None = None
    backend: str | None = None
    restarts: int | None = None
    settings: str | None = None
    """Settings of the rendezvous, as KEY=VALUE,..."""
    job: str | None = None
    standalone: bool = False
    workers: int | None = None
    """Ranks of a job on this machine alone."""
    once: bool = False
    """True: the command starts its ranks itself."""

    @property
    def elastic(self) -> Elastic:
        """Choices for torch's elastic launcher."""
        restarts = self.restarts or 0
        usual = C10D if restarts or self.standalone else STATIC
        return Elastic(self.backend or usual, restarts)


def plan_rendezvous(request: Request, environ: Mapping[str, str]) -> Rendezvous | None:
    """Plans where the hosts meet; None where the job has this machine alone.

    What the user does not name is taken from the launcher that has started this command once on
    each host.

    Raises:
        OptionsError: some of the options do not fit each other, or one is missing.
    """
    _check(request)
    limit = _read_limit(request.settings)
    if request.standalone or request.workers or request.once:
        return None
    task = find_task(environ)
    nodes = request.nodes or (task.size if task else 1)
    if nodes == 1:
        if request.node:
            raise OptionsError(f"--node-rank {request.node}: there is one host; give --nnodes")
        if request.endpoint and request.nodes is None:
            raise OptionsError(f"--rdzv-endpoint {request.endpoint}: give --nnodes as well")
        return None
    if task and task.local > 1:
        raise OptionsError(
            f"{task.launcher} has started {task.local} of this command on one host; start one on "
            "each, and name its ranks with --nproc-per-node"
        )
    node = request.node if request.node is not None else (task.rank if task else None)
    if node is not None and node >= nodes:
        raise OptionsError(f"--node-rank {node}: the hosts are 0 to {nodes - 1}")
    endpoint = request.endpoint or (task.endpoint if task else "")
    if not endpoint:
        where = f"{task.launcher} does not tell the first host: " if task else ""
        raise OptionsError(
            f"{where}name an address of the first host with --rdzv-endpoint HOST:PORT"
        )
    return Rendezvous(
        nodes=nodes,
        node=node,
        endpoint=read_endpoint(endpoint),
        ranks=request.ranks or 1,
        elastic=request.elastic,
        name=(task.name if task else "") or socket.gethostname(),
        job=request.job or (task.job if task else ""),
        limit=limit,
    )


def read_endpoint(text: str) -> tuple[str, int]:
    """Reads HOST:PORT, or HOST alone.

    Raises:
        OptionsError: it is neither.
    """
    bare = ":" not in text or text.endswith("]")
    try:
        return split_address(f"{text}:{DEFAULT_PORT}" if bare else text)
    except ValueError as error:
        raise OptionsError(f"--rdzv-endpoint {error}") from None


def _check(request: Request) -> None:
    """Refuses options that do not fit each other."""
    starters = {
        "--workers": request.workers,
        "--max-restarts": request.restarts,
        "--standalone": request.standalone,
        "--rdzv-backend": request.backend,
    }
    for name, given in starters.items():
        if request.once and given:
            raise OptionsError(f"--once: the command starts its ranks itself; drop {name}")
    alone = "--workers" if request.workers else "--once" if request.once else ""
    named = {
        "--nnodes": (request.nodes or 1) > 1,
        "--node-rank": request.node is not None,
        "--rdzv-endpoint": request.endpoint is not None,
        "--rdzv-id": request.job is not None,
    }
    several = [name for name, given in named.items() if given]
    if alone and several:
        raise OptionsError(
            f"{alone} is for one machine; drop {several[0]}, or take --nproc-per-node"
        )
    if alone and request.ranks:
        raise OptionsError(f"{alone} and --nproc-per-node: drop one of them")
    if request.standalone and several:
        raise OptionsError(f"--standalone is for one machine; drop {several[0]}")


def _read_limit(settings: str | None) -> int:
    """Seconds that the other hosts have to come.

    Raises:
        OptionsError: the settings have something else.
    """
    limit = _DEFAULT_LIMIT
    for setting in [] if settings is None else settings.split(","):
        key, _, value = setting.partition("=")
        if key.strip() != _LIMIT or not _SECONDS.fullmatch(value):
            raise OptionsError(f"--rdzv-conf {setting}: give {_LIMIT}=SECONDS")
        limit = int(value)
    return limit
