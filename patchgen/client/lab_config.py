"""switchml.cfg of a rank whose port is a memif, a piece of memory that it shares with a switch."""

from __future__ import annotations

from patchgen.payload.rank_hook import CPUS_MARK, RANK_MARK, WORLD_MARK

_PACKET_NUMEL = 256
# Of each of a thread's two pools; EAL takes _MEMORY MiB, from which the pools of 5 threads come.
_POOL_SIZE, _MEMORY = 8192, 256


def text(  # noqa: PLR0913  # each is a value of the file
    socket: str,
    controller_port: int,
    *,
    threads: int = 1,
    outstanding: int = 256,
    packet_numel: int = _PACKET_NUMEL,
    timeout: int = 10,
) -> str:
    """The text, with marks for the rank, the number of ranks, and the cores of the rank.

    Args:
        socket: the path of the switch's end of the port, with a mark for the rank; without a
            character that ends a word of DPDK's options.
        controller_port: where the controller listens, on this machine.
        threads: of the client in each rank, each with a core of its own.
        outstanding: packets that a rank has under way.
        packet_numel: 64 or 256 elements.
        timeout: milliseconds after which a packet is sent again.
    """
    # Without huge pages, cards, shared files and a socket of its own, DPDK needs no rights, and
    # several processes do not meet.
    eal = (
        f"--no-huge --no-shconf -m {_MEMORY} --no-pci --no-telemetry --log-level=error "
        f"--vdev=net_memif0,role=client,socket={socket},socket-abstract=no"
    )
    return f"""\
[general]
rank = {RANK_MARK}
num_workers = {WORLD_MARK}
num_worker_threads = {threads}
max_outstanding_packets = {outstanding}
packet_numel = {packet_numel}
backend = dpdk
scheduler = fifo
prepostprocessor = cpu_exponent_quantizer
instant_job_completion = false
controller_ip = 127.0.0.1
controller_port = {controller_port}
timeout = {timeout}
timeout_threshold = 100
timeout_threshold_increment = 100

[backend.dpdk]
worker_port = 4000
worker_ip = 10.83.77.{RANK_MARK}
cores = {CPUS_MARK}
extra_eal_options = {eal}
port_id = 0
pool_size = {_POOL_SIZE}
pool_cache_size = 256
burst_rx = 64
burst_tx = 64
bulk_drain_tx_us = 10
"""
