"""switchml.cfg of a rank with the simulator."""

from __future__ import annotations

from patchgen.client.config import DEFAULT_PORT, PREPOSTPROCESSORS
from patchgen.errors import OptionsError
from patchgen.system.ports import split_address

_EXTERNAL = """
[backend.simulator]
# true: `switchml-patch simulator serve` is the switch, at controller_ip and controller_port.
external_aggregator = true
"""


def simulated(
    *,
    rank: int = 0,
    workers: int = 1,
    controller_port: int = DEFAULT_PORT,
    prepostprocessor: str = PREPOSTPROCESSORS[0],
    aggregator: str | None = None,
) -> str:
    """The text, which the real library reads as well where `aggregator` is None.

    Args:
        rank: of the worker.
        workers: how many there are.
        controller_port: where rank 0 listens, on the loopback.
        prepostprocessor: one of `PREPOSTPROCESSORS`.
        aggregator: HOST:PORT of a process that is the switch instead of rank 0.

    Raises:
        OptionsError: `aggregator` is no such address.
    """
    if aggregator is None:
        return _text(rank, workers, "127.0.0.1", controller_port, prepostprocessor)
    try:
        address = split_address(aggregator)
    except ValueError as error:
        raise OptionsError(f"the address of the aggregator: {error}") from None
    return _text(rank, workers, *address, prepostprocessor) + _EXTERNAL


def _text(rank: int, workers: int, host: str, port: int, prepostprocessor: str) -> str:
    return f"""\
# Read from /etc/switchml.cfg, ./switchml.cfg or ./switchml-<hostname>.cfg, the first that exists.

[general]
# Which worker this is, from 0 on, and how many there are. Every worker has its own rank.
rank = {rank}
num_workers = {workers}

# Must be the same for all workers.
num_worker_threads = 4
max_outstanding_packets = 256
packet_numel = 256
# cpu_exponent_quantizer: float32 in fixed point, as a switch adds it. bypass: exact float32 sums
# in the simulator, and no sums of float32 at all on a switch.
prepostprocessor = {prepostprocessor}
# true: jobs finish at once and compute nothing.
instant_job_completion = false

# dummy, dpdk or rdma. The simulator takes each of them for TCP.
backend = dummy
scheduler = fifo

# In the simulator: where the switch listens, which is rank 0 where nothing else is said.
controller_ip = {host}
controller_port = {port}

# A lost packet is sent again after so many milliseconds. The simulator loses none: it takes the
# product of the three (100 seconds) as the time that a worker waits for the others.
timeout = 10
timeout_threshold = 100
timeout_threshold_increment = 100

[backend.dummy]
# Mbit/s to imitate, 0 for no limit, and whether to compute. Not used by the simulator.
bandwidth = 0
process_packets = true
"""
