"""The controller, by a client of gRPC: who meets, who may join, and what is left of the dead."""

from __future__ import annotations

import grpc
import pytest
from support.switch_clients import Controller
from support.switch_model import IP, MAC, Packet
from support.switch_program import Switch, Switches
from support.switch_traces import ADDRESSES
from support.waiting import until

BROADCAST, BARRIER, UDP = "Sync/Broadcast", "Sync/Barrier", "Session/UdpSession"


def cast(value: int, rank: int, workers: int) -> dict[int, int]:
    return {1: value, 2: rank, 3: workers, 4: 0}


def session(number: int, rank: int, workers: int, **changes: int) -> dict[int, int]:
    mac, ip = ADDRESSES[changes.get("address", rank)]
    size = changes.get("size", 1)
    return {1: number, 2: rank, 3: workers, 4: mac, 5: ip, 7: size}


def refused(switch: Switch, method: str, fields: dict[int, int]) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        Controller(switch.address).call(method, fields)
    message = str(caught.value.details())
    assert message.partition(": ")[2] in switch.errors.read_text()
    return message


def test_workers_join_as_the_client_library_does(start: Switches) -> None:
    switch = start(2)
    zero, one = Controller(switch.address), Controller(switch.address)
    late = one.begin(BROADCAST, cast(0, 1, 2))
    assert zero.call(BROADCAST, cast(77, 0, 2)) == {1: 77}
    assert late.result() == {1: 77}
    waiting = one.begin(BARRIER, {1: 2})
    assert zero.call(UDP, session(77, 0, 2)) == {1: 77, 2: MAC, 3: IP}
    assert not waiting.done()
    zero.call(BARRIER, {1: 2})
    waiting.result()
    assert one.call(UDP, session(77, 1, 2)) == {1: 77, 2: MAC, 3: IP}
    last = zero.begin(BARRIER, {1: 2})
    one.call(BARRIER, {1: 2})
    last.result()
    assert switch.stop()["sessions"] == 1


def test_who_may_not_join_learns_why(start: Switches) -> None:
    switch = start(1)
    for fields, why in (
        (session(5, 0, 33), "33 workers: the switch sums 1 to 32"),
        (session(5, 0, 0), "0 workers: the switch sums 1 to 32"),
        (session(5, 2, 2), "unknown rank 2: there are 2 workers"),
        (session(5, 0, 2, size=0), "packets of 64 and of 256 elements"),
        (session(5, 1, 2), "rank 0 has not begun this session"),
    ):
        assert why in refused(switch, UDP, fields)
    switch.join(5, ADDRESSES[:1])
    Controller(switch.address).call(UDP, session(6, 0, 3))
    for fields, why in (
        (session(6, 1, 2), "rank 1 says 2 workers, rank 0 says 3"),
        (session(6, 1, 3, size=3), "rank 1 has packets of 256 elements, rank 0 of 64"),
        (session(6, 1, 3, address=0), "rank 1 has the address of rank 0"),
        (session(7, 0, 3, address=9), "another session is running, of 3 workers"),
        (session(7, 1, 3), "or another one is running"),
    ):
        assert why in refused(switch, UDP, fields)
    assert Controller(switch.address).call(UDP, session(6, 1, 3))
    assert "rank 1 has joined already" in refused(switch, UDP, session(6, 1, 3, address=8))
    assert "RDMA is not served" in refused(switch, "Session/RdmaSession", {1: 6, 2: 0})
    assert "40 workers" in refused(switch, BARRIER, {1: 40})
    assert "there are 2 workers" in refused(switch, BROADCAST, cast(1, 2, 2))


def test_the_dead_are_not_waited_with(start: Switches) -> None:
    """A call whose worker has gone does not open a barrier for the next two."""
    switch = start(2)
    dead, zero, one = (Controller(switch.address) for _ in range(3))
    lost = dead.begin(BARRIER, {1: 2})
    with pytest.raises(grpc.FutureTimeoutError):
        lost.result(timeout=0.3)  # it has arrived, for all that can be known
    lost.cancel()
    dead.channel.close()
    waiting = zero.begin(BARRIER, {1: 2})
    with pytest.raises(grpc.FutureTimeoutError):
        waiting.result(timeout=0.3)
    one.call(BARRIER, {1: 2})
    waiting.result()


def test_nothing_is_left_of_a_broadcast_that_failed(start: Switches) -> None:
    """Rank 0 brought a value, and died; a rank of the next session must not get that."""
    switch = start(2, "--wait=0.5")
    with pytest.raises(grpc.RpcError) as caught:
        Controller(switch.address).call(BROADCAST, cast(66, 0, 2))
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert "1 of 2 workers came" in caught.value.details()
    one, zero = Controller(switch.address), Controller(switch.address)
    early = one.begin(BROADCAST, cast(0, 1, 2))
    zero.call(BROADCAST, cast(77, 0, 2))
    assert early.result() == {1: 77}


def test_a_new_session_ends_the_waiting_for_an_old_one(start: Switches) -> None:
    switch = start(2)
    old = [Controller(switch.address) for _ in range(2)]
    first = old[1].begin(BROADCAST, cast(0, 1, 2))
    old[0].call(BROADCAST, cast(11, 0, 2))
    first.result()
    old[0].call(UDP, session(11, 0, 2))
    left = old[0].begin(BARRIER, {1: 2})  # rank 1 has died
    new = [Controller(switch.address) for _ in range(2)]
    second = new[1].begin(BROADCAST, cast(0, 1, 2))
    new[0].call(BROADCAST, cast(22, 0, 2))
    second.result()
    waiting = new[1].begin(BARRIER, {1: 2})
    new[0].call(UDP, session(22, 0, 2))  # of the same address, so it begins anew
    with pytest.raises(grpc.RpcError) as caught:
        left.result()
    assert "a newer session has begun" in caught.value.details()
    assert not waiting.done()
    new[0].call(BARRIER, {1: 2})
    waiting.result()


def test_a_session_ends_with_a_worker(start: Switches) -> None:
    """Another one may begin once a worker has disconnected, and not before."""
    switch = start(1)
    client = switch.client(0)
    switch.join(1, ADDRESSES[:1])
    client.send(Packet(*ADDRESSES[0], 0, b"1234", 0, 0, (0, 0), bytes(256)).frame())
    client.receive()
    assert "another session is running" in refused(switch, UDP, session(2, 0, 1, address=5))
    client.close()

    def begun() -> bool:
        try:
            Controller(switch.address).call(UDP, session(2, 0, 1, address=5))
        except grpc.RpcError:
            return False
        return True

    until(begun)
