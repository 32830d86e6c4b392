"""Hosts of a job that have met: their numbers, what has to be equal, and the result of all."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from patchgen import __version__
from patchgen.errors import CheckError, OptionsError, PatchgenError
from patchgen.extras.lab.lab import RemoteLab
from patchgen.extras.train.hosts.exchange import Exchange, HostLost, connected
from patchgen.extras.train.hosts.switches import find_wire, run_aggregator, run_lab
from patchgen.extras.train.job import Host, Hosts, Rank, Result
from patchgen.system import signals
from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from threading import Event

    from patchgen.extras.train.hosts.rendezvous import Rendezvous
    from patchgen.extras.train.job import Job, Setup

__all__ = ["HostLost", "Party", "met"]

_LOGGER = logging.getLogger(__name__)
_LOOPBACKS = ("127.", "::1")


@dataclass(frozen=True)
class Party:
    """This host among those of a job."""

    exchange: Exchange
    hosts: Hosts
    order: Sequence[int]
    """Place of each host in the rounds, by its number."""

    @property
    def over(self) -> Event:
        """Event that is set once the ranks of all hosts are to end."""
        return self.exchange.over

    @property
    def is_first(self) -> bool:
        """True on the host that has the table of all ranks."""
        return self.hosts.node == 0

    @contextlib.contextmanager
    def agreed(self, job: Job, setup: Setup) -> Iterator[Setup]:
        """Compares the hosts' setups; yields that of the job, whose switch runs in the block.

        Raises:
            CheckError: they differ.
            HostLost: a host has ended.
            ToolError: the switch cannot be started.
        """
        with contextlib.ExitStack() as stack:
            address = ""
            if setup.simulated and not job.configs.files and self.is_first:
                address = stack.enter_context(run_aggregator(job, self.hosts))
            lab = None
            if setup.switch:
                fail = self.exchange.stop
                lab = stack.enter_context(run_lab(setup.switch, job, self.hosts, fail))
            own = {
                "values": {**describe_setup(setup), "--lab": "yes" if job.lab else "no"},
                "aggregator": address,
                "lab": [lab.address, lab.port, lab.timeout] if lab else [],
            }
            told = self._share(own)
            differences = [*find_differences(self.hosts, [one["values"] for one in told])]
            if differences:
                raise CheckError("\n".join(["the hosts differ:", *differences]))
            address = told[0]["aggregator"]
            if address:
                where = f"a process on {self.hosts.all[0].name} adds, at {address}"
                notes = [*setup.notes, f"the switch is simulated: {where}"]
                setup = replace(setup, aggregator=address, notes=notes)
            if lab:
                setup = replace(setup, lab=lab)
            elif job.lab:
                remote = RemoteLab(find_wire(self.hosts), *told[0]["lab"])
                setup = replace(setup, lab=remote)
            yield setup

    def combine(self, result: Result) -> Result:
        """Combines the results of all hosts, which have to wait for the last one.

        Raises:
            HostLost: a host has ended.
        """
        if result.code:
            self.exchange.stop()
        own = {
            "code": result.code,
            "failed": list(result.failed.items()),
            "ranks": [asdict(rank) for rank in result.ranks],
            "elsewhere": list(result.elsewhere),
            "makers": list(result.makers),
        }
        told = self._share(own, last=True)
        return combine_results(result, self.hosts, told, self._stopper)

    @property
    def _stopper(self) -> int:
        """Number of the host whose ranks failed first; 0 where none did."""
        stopped = self.exchange.stopped
        return 0 if stopped is None else self.order.index(stopped)

    def _share(self, data: object, *, last: bool = False) -> list[Any]:
        """Shares data with all hosts; returns theirs, by number."""
        told, _ = self.exchange.share(data, last=last)
        return [told[place] for place in self.order]


@contextlib.contextmanager
def met(rendezvous: Rendezvous) -> Iterator[Party]:
    """Lets this host meet the others; they learn why it leaves the block before the job's end.

    Raises:
        OptionsError: their options do not fit each other.
        ToolError: a host did not come.
    """
    with connected(rendezvous) as (exchange, serves), _excused(exchange):
        told, own = exchange.share(_introduce(rendezvous, exchange, serves=serves))
        _compare_options(told)
        order = number_hosts(told)
        members = [
            Host(told[place]["name"], told[place]["address"], told[place]["ranks"])
            for place in order
        ]
        members = name_apart(members)
        exchange.first = members[0].name
        exchange.names = {place: host.name for place, host in zip(order, members)}
        members[0] = replace(members[0], address=choose_address(told, order[0]))
        hosts = Hosts(tuple(members), order.index(own), told[order[0]]["port"])
        names = ", ".join(host.name for host in members)
        _LOGGER.info("%d hosts have met: %s", len(members), names)
        yield Party(exchange, hosts, order)


def _introduce(rendezvous: Rendezvous, exchange: Exchange, *, serves: bool) -> dict[str, Any]:
    """Introduces this host to the others."""
    own, first = exchange.addresses
    return {
        "name": rendezvous.name,
        "node": rendezvous.node,
        "ranks": rendezvous.ranks,
        "address": own,
        "first": first,
        "port": free_port("") if serves else 0,
        "options": {
            "--nnodes": rendezvous.nodes,
            "--max-restarts": rendezvous.elastic.restarts,
            "--rdzv-backend": rendezvous.elastic.backend,  # which depends on it
            "switchml-patch": __version__,
        },
    }


@contextlib.contextmanager
def _excused(exchange: Exchange) -> Iterator[None]:
    """Tells the others why this host leaves the block, where it raises."""
    try:
        yield
    except HostLost:
        raise  # they know
    except KeyboardInterrupt:
        exchange.leave("was interrupted", 130)
        raise
    except PatchgenError as error:
        exchange.leave(f"failed: {str(error).splitlines()[0]}", error.exit_code)
        raise
    except BaseException as error:
        number = signals.number_of(error)
        why = f"was told to end, by {signal.Signals(number).name}" if number else "failed"
        exchange.leave(why, 128 + number if number else 1)
        raise


def number_hosts(told: Sequence[Mapping[str, Any]]) -> list[int]:
    """Numbers the hosts; returns their places in the round, by number.

    The one that serves is the first; those that name no number follow by name.

    Raises:
        OptionsError: two have one number.
    """
    slots: dict[int, int] = {}
    for place, one in enumerate(told):
        node = 0 if one["port"] else one["node"]
        if node in slots:
            both = f"{told[slots[node]]['name']} and {one['name']}"
            raise OptionsError(f"--node-rank {node}: {both} have it; give each host its own")
        if node is not None:
            slots[node] = place
    rest = sorted(set(range(len(told))) - {*slots.values()}, key=lambda one: told[one]["name"])
    free = (number for number in range(len(told)) if number not in slots)
    slots.update(zip(free, rest))
    return [slots[number] for number in sorted(slots)]


def name_apart(hosts: Sequence[Host]) -> list[Host]:
    """Adds their numbers to the names of hosts that have the same."""
    counts = Counter(host.name for host in hosts)
    return [
        replace(host, name=f"{host.name} ({number})") if counts[host.name] > 1 else host
        for number, host in enumerate(hosts)
    ]


def choose_address(told: Sequence[Mapping[str, Any]], first: int) -> str:
    """Chooses the address by which the others know the first host.

    The host itself may know a loopback's.
    """
    known = [one["first"] for place, one in enumerate(told) if place != first]
    outside = [address for address in known if not address.startswith(_LOOPBACKS)]
    address: str = Counter(outside or known).most_common(1)[0][0]
    return address


def _compare_options(told: Sequence[Mapping[str, Any]]) -> None:
    for name in told[0]["options"]:
        values = {str(one["options"].get(name)): one["name"] for one in told}
        if len(values) > 1:
            each = ", ".join(f"{value} on {host}" for value, host in values.items())
            raise OptionsError(f"{name}: {each}; give all hosts the same")


def describe_setup(setup: Setup) -> dict[str, str]:
    """Describes what has to be equal on all hosts, by name."""
    return {
        "torch": setup.torch.version,
        "torch's commit": setup.torch.commit,
        "way": setup.way,
        "flags": setup.flags,
        "protocol": setup.protocol,
        "client library": "the simulator" if setup.simulated else setup.client,
    }


def find_differences(hosts: Hosts, values: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Lines on what differs, each with all hosts."""
    for name in values[0]:
        texts = [value.get(name) or "none" for value in values]
        if len({*texts}) > 1:
            each = (f"{text} on {host.name}" for text, host in zip(texts, hosts.all))
            yield f"{name}: {', '.join(each)}"


def combine_results(
    own: Result, hosts: Hosts, told: Sequence[Mapping[str, Any]], stopper: int
) -> Result:
    """Combines what the hosts tell of their ranks.

    Args:
        own: result of this host.
        hosts: all of them.
        told: by host.
        stopper: number of the host whose ranks failed first.
    """
    first = told[stopper]
    turns = [stopper, *(node for node in range(len(told)) if node != stopper)]
    failed: dict[int, int] = {}
    places: dict[int, str] = {}
    for node in turns:
        codes = {int(rank): code for rank, code in told[node]["failed"]}
        failed.update(codes)
        numbers = [*codes, *(rank["rank"] for rank in told[node]["ranks"])]
        places.update(dict.fromkeys(numbers, hosts.all[node].name))
    code = first["code"] or next((one["code"] for one in told if one["code"]), 0)
    ranks = [Rank(**rank) for one in told for rank in one["ranks"]]
    ranks.sort(key=lambda rank: rank.rank)
    return replace(
        own,
        code=code,
        failed=failed,
        ranks=ranks,
        elsewhere=sorted({path for one in told for path in one["elsewhere"]}),
        makers=sorted({name for one in told for name in one["makers"]}),
        places=places,
    )
