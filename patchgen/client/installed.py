"""The switchml.cfg that is installed with a client library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchgen.client import config

if TYPE_CHECKING:
    from collections.abc import Collection

_GENERAL = """\
# Read from /etc/switchml.cfg, ./switchml.cfg or ./switchml-<hostname>.cfg, the first that exists.

[general]
# Which worker this is, from 0 on. Every worker has its own rank, and so its own file.
rank = 0
# How many workers sum: at most 32 with SwitchML's own switch program.
num_workers = 1

# All that follows must be the same for all workers, but for addresses and cores.

# dpdk, rdma or dummy. dummy talks to nobody: it multiplies by num_workers.
backend = {backend}
# Threads of each worker that send and receive, each on a core of its own.
num_worker_threads = 4
# Packets that a worker has under way, over all threads. More than 4,681 with 4 threads do not fit
# into the switch.
max_outstanding_packets = 256
# Elements of a packet, 256 or 64. The switch must have been set up for the same.
packet_numel = 256
# Who gets the next job: fifo is all there is.
scheduler = fifo
# cpu_exponent_quantizer makes float32 the integers that a switch adds. bypass does not, so that no
# sum of float32 is right.
prepostprocessor = {prepostprocessor}
# true: jobs end at once and sum nothing.
instant_job_completion = false

# Where the controller of the switch listens.
controller_ip = 127.0.0.1
controller_port = {port}

# A packet without an answer is sent again after so many milliseconds. A worker that waits for slow
# peers sends again for nothing, so this is longer than what peers are usually late. With rdma no
# group delegates with less than 1000.
timeout = 1000
# After so many packets that were sent again, the timeout doubles, eightfold at most, until an
# answer comes ...
timeout_threshold = 100
# ... and the next time it takes so many more.
timeout_threshold_increment = 100
"""

_BACKENDS = {
    "dpdk": """
[backend.dpdk]
# UDP port of the first thread; each further one has the next. It must be the same for all workers,
# since an answer goes to the port of the worker that was last.
worker_port = 4000
# IPv4 address of this worker. Nothing resolves it: it only has to differ between workers.
worker_ip = 10.0.0.1
# Processor cores of the threads, as many as num_worker_threads.
cores = 0-3
# Options of EAL, DPDK's environment. Without huge pages: --no-huge -m 1024
extra_eal_options = --file-prefix=switchml
# Number of the port among those that DPDK finds.
port_id = 0
# Buffers for packets; there are two pools of them for each thread, 2.3 KB a buffer.
pool_size = 8192
# Buffers that each core keeps to itself.
pool_cache_size = 512
# Packets that are received and sent in one go.
burst_rx = 64
burst_tx = 64
# Packets that wait for more to be sent with are sent after so many microseconds.
bulk_drain_tx_us = 100
""",
    "rdma": """
[backend.rdma]
# Elements of a message, a multiple of packet_numel. A lost packet costs its whole message.
msg_numel = 1024
# The card, as ibv_devices names it, and its port.
device_name = mlx5_0
device_port_id = 1
# The address that the card uses: 3 is RoCEv2 with an IPv4 address on most cards; show_gids tells.
gid_index = 3
""",
    "dummy": """
[backend.dummy]
# Mbit/s to imitate, 0 for no limit.
bandwidth = 0
# Whether to compute.
process_packets = true
""",
}


def text(flags: Collection[str]) -> str:
    """The text for a client library of `client build`.

    Args:
        flags: what it was built with; a library refuses the names of a backend that it lacks.
    """
    backend = next((name for name in ("dpdk", "rdma") if name.upper() in flags), "dummy")
    general = _GENERAL.format(
        backend=backend, prepostprocessor=config.PREPOSTPROCESSORS[0], port=config.DEFAULT_PORT
    )
    return general + "".join(_BACKENDS[name] for name in dict.fromkeys((backend, "dummy")))
