"""Options of a job over several hosts, which torchrun has as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import click

from patchgen.cli.console import option
from patchgen.cli.params import gather

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.extras.train.hosts.rendezvous import Request

HOSTS = "Several hosts, as torchrun"
MOST_HOSTS = 4096
_BACKENDS = ("c10d", "static")  # those of torch that need no other server
_FIELDS = {
    "nnodes": "nodes",
    "node_rank": "node",
    "rdzv_endpoint": "endpoint",
    "nproc_per_node": "ranks",
    "rdzv_backend": "backend",
    "max_restarts": "restarts",
    "rdzv_conf": "settings",
    "rdzv_id": "job",
    "standalone": "standalone",
    "workers": "workers",
    "once": "once",
}
"""Fields of a request by option."""

_OPTIONS = (
    option(
        "--nnodes", group=HOSTS, type=click.IntRange(1, MOST_HOSTS), metavar="N",
        help="Hosts; start this command on each. [default: what srun or mpirun has started, else "
        "this one]",
    ),
    option(
        "--node-rank", group=HOSTS, type=click.IntRange(min=0), metavar="R",
        help="Number of this host; host 0 serves. [default: that of srun or mpirun, else chosen "
        "when all have come]",
    ),
    option(
        "--rdzv-endpoint", group=HOSTS, metavar="HOST:PORT",
        help="Address of the first host, and a free port there. [default: the first node of "
        "SLURM's list, or MASTER_ADDR:MASTER_PORT]",
    ),
    option(
        "--nproc-per-node", group=HOSTS, type=click.IntRange(min=1), metavar="N",
        help="Ranks of this host. [default: 1; with one host, as --workers]",
    ),
    option(
        "--rdzv-backend", group=HOSTS, type=click.Choice(_BACKENDS),
        help="How torch numbers the ranks: by host (static), or by address. [default: static, with "
        "--max-restarts c10d]",
    ),
    option(
        "--max-restarts", group=HOSTS, type=click.IntRange(min=0), metavar="N",
        help="Times that all ranks are started again after one has failed. [default: 0]",
    ),
    option(
        "--rdzv-conf", group=HOSTS, metavar="join_timeout=SECONDS",
        help="Seconds that the other hosts have to come. [default: 600]",
    ),
    option(
        "--rdzv-id", group=HOSTS, metavar="ID",
        help="Name of the job; a host that gives another one is refused.",
    ),
    option(
        "--standalone", is_flag=True, group=HOSTS,
        help="Take this host alone, also under srun and mpirun.",
    ),
)  # fmt: skip


def host_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator that adds the options to a command, which gets them as the value `hosts`."""
    command = gather("hosts", _read_request, [*_FIELDS])(command)
    for add in reversed(_OPTIONS):
        command = add(command)
    return command


def _read_request(given: Mapping[str, Any]) -> Request:
    from patchgen.extras.train.hosts.rendezvous import Request  # no other command needs it

    return Request(**{_FIELDS[name]: value for name, value in given.items()})
