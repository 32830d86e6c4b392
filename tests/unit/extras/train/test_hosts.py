"""Where the hosts of a job meet, how they are numbered, and what they compare."""

from __future__ import annotations

import dataclasses
import socket
from typing import Any

import pytest
from support.demo_outcomes import TORCH

from patchgen.errors import OptionsError, ToolError
from patchgen.extras.train import report
from patchgen.extras.train.access import Access
from patchgen.extras.train.hosts import exchange, party
from patchgen.extras.train.hosts.rendezvous import (
    Rendezvous,
    Request,
    plan_rendezvous,
    read_endpoint,
)
from patchgen.extras.train.hosts.switches import find_wire
from patchgen.extras.train.job import Host, Hosts, Job, Rank, Result, Setup
from patchgen.system.network import find_interface

SRUN = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "2",
    "SLURM_PROCID": "1",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "1(x4)",
    "SLURM_JOB_NODELIST": "rack[3-6]",
    "SLURMD_NODENAME": "rack4",
}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "PMIX_NAMESPACE": "12345",
}


def plan(request: Request, environ: dict[str, str]) -> Rendezvous:
    found = plan_rendezvous(request, environ)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("wanted", "environ"),
    [
        (Request(), {}),
        (Request(workers=3), {}),
        (Request(nodes=1, ranks=3), {}),
        (Request(standalone=True), SRUN),
        (Request(workers=2), SRUN),
        (Request(once=True), SRUN),
        (Request(), {**SRUN, "SLURM_NTASKS": "1"}),
        (Request(), {**SRUN, "SLURM_STEP_ID": "4294967291"}),
        (Request(), {**SRUN, "RANK": "0", "WORLD_SIZE": "2"}),
        (Request(nodes=1), SRUN),
    ],
)
def test_a_job_of_this_machine_alone(wanted: Request, environ: dict[str, str]) -> None:
    assert plan_rendezvous(wanted, environ) is None


def test_options_as_torchrun_has_them() -> None:
    found = plan(Request(nodes=3, node=1, endpoint="[fe80::1]:77", ranks=4, job="a"), {})
    assert found.endpoint == ("fe80::1", 77)
    assert (found.nodes, found.node, found.ranks, found.job) == (3, 1, 4, "a")
    assert found.name == socket.gethostname()
    assert found.limit == 600
    found = plan(Request(nodes=2, endpoint="head", settings="join_timeout=9"), {})
    assert (found.endpoint, found.node, found.ranks, found.limit) == (("head", 29400), None, 1, 9)


@pytest.mark.parametrize(
    ("wanted", "backend"),
    [
        (Request(), "static"),
        (Request(standalone=True), "c10d"),
        (Request(restarts=1), "c10d"),
        (Request(nodes=2), "static"),
        (Request(nodes=2, node=0), "static"),
        (Request(nodes=2, node=0, restarts=1), "c10d"),
        (Request(nodes=2, node=0, restarts=1, backend="static"), "static"),
    ],
)
def test_the_backend_of_a_rendezvous(wanted: Request, backend: str) -> None:
    assert wanted.elastic.backend == backend


def test_the_task_of_a_launcher_names_what_the_user_does_not() -> None:
    found = plan(Request(ranks=2), SRUN)
    assert (found.nodes, found.node, found.ranks, found.name) == (4, 1, 2, "rack4")
    assert (found.endpoint, found.job) == (("rack3", 29400 + 7 * 16 + 2), "7.2")
    assert plan(Request(), {**SRUN, "MASTER_ADDR": "h", "MASTER_PORT": "5"}).endpoint == ("h", 5)
    own = plan(Request(nodes=2, node=0, endpoint="h:6", job="b"), SRUN)
    assert (own.nodes, own.node, own.endpoint, own.job) == (2, 0, ("h", 6), "b")
    found = plan(Request(), {**MPIRUN, "MASTER_ADDR": "head"})
    assert (found.nodes, found.node, found.endpoint) == (2, 0, ("head", 29400 + 12345 % 3000))
    assert found.job == "12345"


def test_hosts_of_mpirun_meet_in_a_job_of_slurm() -> None:
    """On the first it has the variables of a script, on the others those of its own daemons."""
    script = {**SRUN, "SLURM_STEP_ID": "4294967291", "SLURMD_NODENAME": "rack3", **MPIRUN}
    daemon = {**SRUN, "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "rack4", **MPIRUN}
    first, second = (
        plan(Request(), {**environ, "OMPI_COMM_WORLD_RANK": str(rank)})
        for rank, environ in enumerate((script, daemon))
    )
    assert (first.node, first.name) == (0, "rack3")
    assert second == dataclasses.replace(first, node=1, name="rack4")
    assert first.endpoint[0] == "rack3"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        (MPIRUN, "mpirun does not tell the first host: name an address"),
        ({**MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "mpirun has started 2 of this command"),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, "srun has started 2 of this command"),
        ({**SRUN, "MASTER_PORT": "x"}, "--rdzv-endpoint rack3:x: not HOST:PORT"),
    ],
)
def test_a_launcher_that_is_of_no_use(environ: dict[str, str], told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        plan_rendezvous(Request(), environ)


@pytest.mark.parametrize(
    "text",
    ["", ":1", "h:", "h:x", "h:65536", f"h:{'9' * 5000}", "no host:1", "http://h:1", "a..b:1",
     f"{'x' * 64}:1"],
    ids=lambda text: text[:9],
)  # fmt: skip
def test_no_endpoint(text: str) -> None:
    with pytest.raises(OptionsError, match="not HOST:PORT"):
        read_endpoint(text)


@pytest.mark.parametrize("value", ["", "0", "-1", "1.5", "nan", "9" * 5000])
def test_no_limit(value: str) -> None:
    settings = f"join_timeout={value}"
    with pytest.raises(OptionsError, match="give join_timeout=SECONDS"):
        plan_rendezvous(Request(nodes=2, endpoint="h:1", settings=settings), {})


def told(name: str, node: int | None = None, port: int = 0, first: str = "") -> dict[str, Any]:
    return {"name": name, "node": node, "port": port, "first": first}


@pytest.mark.parametrize(
    ("hosts", "order"),
    [
        ([told("c", port=5), told("b"), told("a")], [0, 2, 1]),
        ([told("a"), told("b", port=5)], [1, 0]),
        ([told("c", 2), told("a", 0, port=5), told("b", 1)], [1, 2, 0]),
        ([told("a", 0, port=5), told("b", 2), told("c")], [0, 2, 1]),
    ],
)
def test_numbers_of_hosts(hosts: list[dict[str, Any]], order: list[int]) -> None:
    assert party.number_hosts(hosts) == order


def test_a_number_that_two_hosts_have() -> None:
    with pytest.raises(OptionsError, match="--node-rank 1: b and c have it"):
        party.number_hosts([told("a", 0, port=5), told("b", 1), told("c", 1)])


def test_the_first_host_is_known_by_the_address_that_others_reach() -> None:
    hosts = [told("a", port=5, first="127.0.1.1"), told("b", first="10.0.0.1")]
    assert party.choose_address(hosts, 0) == "10.0.0.1"
    hosts = [told("b", first="127.0.0.1"), told("a", port=5, first="127.0.0.1")]
    assert party.choose_address(hosts, 1) == "127.0.0.1"


def test_hosts_of_one_name_are_told_apart() -> None:
    hosts = [Host(name, "", 1) for name in ("a", "b", "a")]
    assert [host.name for host in party.name_apart(hosts)] == ["a (0)", "b", "a (2)"]


@pytest.mark.parametrize(
    "changed", [{"torch": dataclasses.replace(TORCH, commit="1")}, {"flags": "DPDK"},
                {"way": "graft"}, {"simulated": True}, {"client": "mends"}, {"protocol": "2"}],
)  # fmt: skip
def test_what_differs_is_named_with_all_hosts(changed: dict[str, Any]) -> None:
    hosts = Hosts((Host("a", "", 1), Host("b", "", 1)), 0, 1)
    setup = Setup(TORCH, "plugin", Access(""))
    values = [party.describe_setup(one) for one in (setup, dataclasses.replace(setup, **changed))]
    (line,) = party.find_differences(hosts, values)
    assert " on a, " in line
    assert line.endswith(" on b")
    assert [*party.find_differences(hosts, values[:1] * 2)] == []


def test_the_result_of_all_hosts() -> None:
    setup = Setup(TORCH, "stock", Access("why"))
    hosts = Hosts((Host("a", "", 1), Host("b", "", 2)), 0, 1)

    def tell(*numbers: int, code: int, failed: list[list[int]]) -> dict[str, Any]:
        ranks = [Rank(number, 3, "gloo", "", None, final=True) for number in numbers]
        return {
            "code": code, "failed": failed, "elsewhere": ["/x"], "makers": [],
            "ranks": [dataclasses.asdict(rank) for rank in ranks],
        }  # fmt: skip

    own = Result(setup, 1, {0: 1}, [])
    parts = [tell(0, code=1, failed=[[0, 1]]), tell(2, 1, code=7, failed=[[2, 7]])]
    found = party.combine_results(own, hosts, parts, 1)
    assert found.code == 7
    assert [*found.failed.items()] == [(2, 7), (0, 1)]
    assert [rank.rank for rank in found.ranks] == [0, 1, 2]
    assert found.places == {0: "a", 1: "b", 2: "b"}
    assert found.elsewhere == ["/x"]
    assert [*report.failures(found)] == [
        "rank 2 on b failed with exit code 7", "rank 0 on a failed with exit code 1",
    ]  # fmt: skip
    assert [rank["host"] for rank in report.data(found)["ranks"]] == ["a", "b", "b"]


class Heard:
    """Exchange in which the second place stopped first."""

    stopped = 1

    def __init__(self, told: list[dict[str, Any]]) -> None:
        self.told = told
        self.asked = False

    def stop(self) -> None:
        self.asked = True

    def share(self, _data: object, *, last: bool) -> tuple[list[dict[str, Any]], int]:
        assert last
        return self.told, 0


@pytest.mark.parametrize("code", [0, 3])
def test_the_host_that_stopped_first_has_the_code(code: int) -> None:
    nothing: dict[str, Any] = {"failed": [], "ranks": [], "elsewhere": [], "makers": []}
    parts = [{**nothing, "code": one} for one in (3, 5)]
    heard: Any = Heard(parts)
    hosts = Hosts((Host("b", "", 1), Host("a", "", 1)), 0, 1)
    for order in ([0, 1], [1, 0]):
        own = Result(Setup(TORCH, "stock", Access("why")), code, {}, [])
        assert party.Party(heard, hosts, order).combine(own).code == 5
    assert heard.asked == (code != 0)


def test_a_connection_with_itself_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel makes one where nobody listens and the port is one that it gives to anybody."""

    def connect(_endpoint: object, timeout: float) -> socket.socket:
        assert timeout
        made = socket.socket()
        made.bind(("127.0.0.1", 0))
        made.connect(made.getsockname())
        return made

    monkeypatch.setattr(socket, "create_connection", connect)
    wanted = plan(Request(nodes=2, node=1, endpoint="h:1"), {})
    with pytest.raises(ToolError, match="no answer of the first host within 0 s: Connection"):
        exchange._connect(dataclasses.replace(wanted, limit=0))


def test_the_interface_of_an_address() -> None:
    assert find_interface("127.0.1.1") == "lo"
    assert find_interface("::1") == "lo"
    assert find_interface("192.0.2.1") == ""
    assert find_interface("2001:db8::1") == ""


def meeting(*ranks: int, address: str = "127.0.1.1") -> Hosts:
    return Hosts(tuple(Host(f"host{n}", address, count) for n, count in enumerate(ranks)), 0, 1)


def test_a_lab_has_one_rank_on_each_host_but_the_first() -> None:
    given: dict[str, Any] = {
        "command": ["a"],
        "python": "b",
        "cache": "c",
        "cwd": "d",
        "environ": {},
    }
    Job(**given, lab=True, workers=3, hosts=meeting(2, 1))
    with pytest.raises(OptionsError, match="give --nproc-per-node 1 on all hosts but the first"):
        Job(**given, lab=True, workers=3, hosts=meeting(1, 2))
    Job(**given, workers=3, hosts=meeting(1, 2))


@pytest.mark.parametrize("address", ["127.0.1.1", "::1", "fe80::1", "198.51.100.7"])
def test_a_lab_needs_a_network(address: str) -> None:
    with pytest.raises(OptionsError, match=f"host0 is {address} for the others"):
        find_wire(meeting(1, 1, address=address))
