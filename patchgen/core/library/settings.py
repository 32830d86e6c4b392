"""Settings of a switchml.cfg: their defaults and their descriptions."""

from __future__ import annotations

from dataclasses import dataclass

PREPOSTPROCESSORS = ("cpu_exponent_quantizer", "bypass")


@dataclass(frozen=True)
class Setting:
    """Setting of a switchml.cfg."""

    name: str
    """Section and key, such as `general.rank`."""
    default: str
    """Value of the client library if the file has none."""
    about: str = ""
    """Lines of comment; empty where the comment of the setting before covers both."""
    written: str | None = None
    """Value in a new file; None for the default."""
    by_rank: bool = False
    """Whether each rank fills in its own value if the file has none."""

    @property
    def section(self) -> str:
        """Section, such as `backend.dpdk`."""
        return self.name.rpartition(".")[0]

    @property
    def key(self) -> str:
        """Name within the section."""
        return self.name.rpartition(".")[2]


SETTINGS = (
    Setting(
        "general.rank",
        "0",
        "Number of this worker, from 0 on. Unless it is set, it is the rank in the process group;\n"
        "a group that gives this process another one than is set here does not delegate.",
        by_rank=True,
    ),
    Setting(
        "general.num_workers",
        "1",
        "Number of workers: at most 32 with SwitchML's own switch program. Unless it is set, it\n"
        "is the size of the process group. This and all that follows must be the same for all\n"
        "workers, but for addresses and cores. ${NAME} is a variable of the environment.",
        by_rank=True,
    ),
    Setting(
        "general.backend",
        "dummy",
        "dpdk, rdma or dummy. dummy talks to nobody: it multiplies by num_workers. The simulator\n"
        "takes each of them for TCP.",
    ),
    Setting(
        "general.num_worker_threads",
        "4",
        "Threads of each worker that send and receive, each on a core of its own.",
    ),
    Setting(
        "general.max_outstanding_packets",
        "256",
        "Packets that a worker has under way, over all threads. More than 4,681 with 4 threads do\n"
        "not fit into the switch.",
    ),
    Setting(
        "general.packet_numel",
        "1024",
        "Elements of a packet, 256 or 64. The switch must be set up for the same.",
        written="256",
    ),
    Setting("general.scheduler", "fifo", "Order of the jobs. There is only fifo."),
    Setting(
        "general.prepostprocessor",
        PREPOSTPROCESSORS[0],
        "cpu_exponent_quantizer turns float32 into the integers that a switch adds. bypass does\n"
        "not: sums of float32 are exact in the simulator, and wrong on a switch.",
    ),
    Setting("general.instant_job_completion", "false", "true: jobs end at once and sum nothing."),
    Setting(
        "general.controller_ip",
        "127.0.0.1",
        "Address of the switch's controller. In the simulator that is rank 0, unless there is an\n"
        "aggregator.",
    ),
    Setting("general.controller_port", "50099"),
    Setting(
        "general.timeout",
        "10",
        "Milliseconds after which a packet without an answer is sent again. A worker that waits\n"
        "for slow peers sends again for nothing, so this is longer than peers are usually late.\n"
        "With rdma no group delegates with less than 1000.",
        written="1000",
    ),
    Setting(
        "general.timeout_threshold",
        "100",
        "After so many packets that were sent again, the timeout doubles, eightfold at most,\n"
        "until an answer comes ...",
    ),
    Setting(
        "general.timeout_threshold_increment",
        "100",
        "... and the next time it takes so many more. The simulator loses no packets: it waits\n"
        "for other workers as many milliseconds as the product of these three.",
    ),
    Setting(
        "backend.dpdk.worker_port",
        "4000",
        "UDP port of the first thread; each further one has the next. It must be the same for all\n"
        "workers, since an answer goes to the port of the worker that was last.",
    ),
    Setting(
        "backend.dpdk.worker_ip",
        "10.0.0.1",
        "IPv4 address of this worker, which nothing resolves: it only has to differ between\n"
        "workers. interface:NAME takes that of an interface, auto that of the card's interface or\n"
        "of the one that leads to the controller. Programs of SwitchML's own need an address.",
        written="auto",
    ),
    Setting(
        "backend.dpdk.cores",
        "0-3",
        "Processor cores of the threads, as many as num_worker_threads. auto takes some that the\n"
        "process may use and other ranks of the host do not, near the card where that is known.",
        written="auto",
    ),
    Setting(
        "backend.dpdk.extra_eal_options",
        "",
        "Options of EAL, DPDK's environment. Without huge pages: --no-huge --no-shconf -m 1024",
        written="--in-memory",
    ),
    Setting("backend.dpdk.port_id", "0", "Number of the port among those that DPDK finds."),
    Setting(
        "backend.dpdk.pool_size",
        "262144",
        "Buffers for packets; there are two pools of them for each thread, 2.3 KB a buffer.",
        written="8192",
    ),
    Setting("backend.dpdk.pool_cache_size", "512", "Buffers that each core keeps to itself."),
    Setting("backend.dpdk.burst_rx", "64", "Packets that are received and sent in one go."),
    Setting("backend.dpdk.burst_tx", "64"),
    Setting(
        "backend.dpdk.bulk_drain_tx_us",
        "100",
        "Microseconds that packets wait for more to be sent with.",
    ),
    Setting(
        "backend.rdma.msg_numel",
        "1024",
        "Elements of a message, a multiple of packet_numel. A lost packet costs its whole message.",
    ),
    Setting("backend.rdma.device_name", "mlx5_0", "Card, as ibv_devices names it, and its port."),
    Setting("backend.rdma.device_port_id", "1"),
    Setting(
        "backend.rdma.gid_index",
        "3",
        "Address that the card uses: 3 is RoCEv2 with an IPv4 address on most cards; show_gids\n"
        "lists them.",
    ),
    Setting("backend.dummy.bandwidth", "1000", "Mbit/s to imitate, 0 for no limit.", written="0"),
    Setting("backend.dummy.process_packets", "true", "true: computes, as well as imitates."),
    Setting(
        "backend.simulator.external_aggregator",
        "false",
        "true: `switchml-patch simulator serve` is the switch, at controller_ip and\n"
        "controller_port.",
    ),
)
"""Settings in the order of a file."""

DEFAULTS = {setting.name: setting.default for setting in SETTINGS}
