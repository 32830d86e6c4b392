"""switchml.cfg, the configuration of one rank: its places, and how it is read and written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from patchgen.core.library.settings import DEFAULTS, PREPOSTPROCESSORS, SETTINGS
from patchgen.errors import OptionsError
from patchgen.options import BACKENDS
from patchgen.system import files, paths
from patchgen.system.ports import split_address

NAME = "switchml.cfg"
DEFAULT_PORT = int(DEFAULTS["general.controller_port"])
MAX_WORKERS = 0xFFFF
AUTO = "auto"
"""Value that each rank fills in."""

_BY_RANK = {setting.name for setting in SETTINGS if setting.by_rank}
_PLACES = "/etc/switchml.cfg, ./switchml.cfg or ./switchml-<hostname>.cfg, the first that exists"
# Buffers of each of a thread's two pools. EAL takes so many MiB, enough for the pools of 5 threads.
_LAB_POOL, _LAB_MEMORY = 8192, 256


@dataclass(frozen=True)
class Config:
    """Configuration of a rank. Rank and number of workers are within the library's limits."""

    rank: int | None
    """Number of the worker, or None where the rank in the process group is filled in."""
    workers: int | None
    """Number of workers, or None where the size of the process group is filled in."""
    backend: str
    values: Mapping[str, str]
    """Values of the file by section and key, such as `general.rank`."""


def load(path: str) -> str:
    """Reads the text of a file; bytes that are not UTF-8 stay what they are.

    Raises:
        OptionsError: it cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as error:
        raise OptionsError(
            f"{paths.describe(path)}: {error.strerror}; give a switchml.cfg"
        ) from error


def save(path: str, text: str) -> None:
    """Writes a text of `load` or of `compose`.

    Raises:
        OSError: it cannot be written.
    """
    files.write(path, text.encode("utf-8", "surrogateescape"))


class _Line(NamedTuple):
    text: str
    section: str
    """Section that the line begins or is in, with a dot at its end; empty before the first."""
    begins: bool
    key: str
    """Key with its section; empty where the line gives no value."""
    value: str
    """Value of the key, or the text that stands there instead; empty but for a comment."""


def _scan(text: str) -> Iterator[_Line]:
    """Yields the lines as boost::program_options reads them."""
    section = ""
    for line in text.splitlines():
        content = line.partition("#")[0].strip()
        begins = content.startswith("[") and content.endswith("]")
        if begins:
            section = content[1:-1].strip().rstrip(".") + "."
        name, equals, value = content.partition("=")
        if equals and not begins:
            yield _Line(line, section, begins, section + name.strip(), value.strip())
        else:
            yield _Line(line, section, begins, "", content)


def parse(text: str) -> dict[str, str]:
    """Parses a text; returns the values by section and key, such as `general.rank`.

    Raises:
        ValueError: the library would refuse it; the message names the line.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(_scan(text), 1):
        if line.key in values:
            raise ValueError(f"line {number} gives {line.key} again")
        if line.key:
            values[line.key] = line.value
        elif line.value and not line.begins:
            raise ValueError(f"line {number} is no 'key = value'")
    return values


def read(text: str) -> Config:
    """Reads the text of a configuration.

    Raises:
        ValueError: the library would refuse it; the message says what.
    """
    values = parse(text)
    rank, workers = (_number(key, values.get(f"general.{key}")) for key in ("rank", "num_workers"))
    return Config(rank, workers, values.get("general.backend", DEFAULTS["general.backend"]), values)


def _number(key: str, value: str | None) -> int | None:
    """Number of a setting; None where each rank fills it in."""
    if value in {None, AUTO} or "${" in value:
        return None
    if not (value.isascii() and value.isdigit() and int(value) <= MAX_WORKERS):
        raise ValueError(f"{key} = {value} is not a number from 0 to {MAX_WORKERS}")
    return int(value)


def without_numbers(text: str) -> str:
    """The text without the rank and the number of workers, which each rank fills in then."""
    return "".join(f"{line.text}\n" for line in _scan(text) if line.key not in _BY_RANK)


def compose(values: Mapping[str, str], sections: Collection[str] = ()) -> str:
    """Composes the text of a file, with a comment for each setting.

    Args:
        values: by name, such as `general.rank`; each of them is in the file.
        sections: sections of which all settings are in the file. What each rank fills in is a
            comment there, which SwitchML's own programs can read.

    Raises:
        ValueError: a value is of no setting.
    """
    unknown = sorted({*values} - {*DEFAULTS})
    if unknown:
        raise ValueError(f"no setting of switchml.cfg: {', '.join(unknown)}")
    lines, begun = [f"# Read from {_PLACES}."], ""
    for setting in SETTINGS:
        if setting.name not in values and setting.section not in sections:
            continue
        if setting.section != begun:
            begun = setting.section
            lines += ["", f"[{begun}]"]
        lines += [f"# {line}" for line in setting.about.splitlines()]
        if setting.by_rank and setting.name not in values:
            lines.append(f"# {setting.key} = {AUTO}")
            continue
        written = setting.default if setting.written is None else setting.written
        lines.append(f"{setting.key} = {values.get(setting.name, written)}")
    return "\n".join(lines) + "\n"


def compose_dummy(rank: int, workers: int) -> str:
    """Composes the text for the library's dummy backend.

    It has only what every build of the library knows: one refuses a file with any other name.
    """
    return compose(
        {
            "general.rank": str(rank),
            "general.num_workers": str(workers),
            "general.packet_numel": "256",
            "general.backend": "dummy",
            "general.prepostprocessor": PREPOSTPROCESSORS[0],
        }
    )


def compose_installed(flags: Collection[str]) -> str:
    """Composes the text for a client library of `client build`.

    Args:
        flags: what it was built with; a library refuses the names of a backend that it lacks.
    """
    backend = next((flag.field for flag in BACKENDS if flag.name in flags), "dummy")
    return compose({"general.backend": backend}, ("general", f"backend.{backend}", "backend.dummy"))


def compose_simulated(
    *,
    rank: int | None = None,
    workers: int | None = None,
    controller_port: int = DEFAULT_PORT,
    prepostprocessor: str = PREPOSTPROCESSORS[0],
    aggregator: str | None = None,
) -> str:
    """Composes the text for the simulator; the real library reads it where `aggregator` is None.

    Args:
        rank: number of the worker; without, each fills in its own.
        workers: how many there are; without, as many as the process group has.
        controller_port: where rank 0 listens, on the loopback.
        prepostprocessor: one of `PREPOSTPROCESSORS`.
        aggregator: HOST:PORT of a process that is the switch instead of rank 0.

    Raises:
        OptionsError: `aggregator` is no such address.
    """
    numbers = {"general.rank": rank, "general.num_workers": workers}
    values = {
        **{name: str(number) for name, number in numbers.items() if number is not None},
        "general.prepostprocessor": prepostprocessor,
        "general.controller_port": str(controller_port),
        "general.timeout": "10",
    }
    if aggregator is not None:
        try:
            host, port = split_address(aggregator)
        except ValueError as error:
            raise OptionsError(f"the address of the aggregator: {error}") from None
        values["general.controller_ip"], values["general.controller_port"] = host, str(port)
        values["backend.simulator.external_aggregator"] = "true"
    return compose(values, ("general", "backend.dummy"))


def compose_lab(device: str, controller_port: int, *, rank: str, cores: str, timeout: int) -> str:
    """Composes the text for a rank whose port is a device in software.

    Args:
        device: what DPDK is told of the port.
        controller_port: where the controller listens, on the loopback.
        rank: number of the rank, or a variable that has it.
        cores: core of its thread, or a variable that has it.
        timeout: milliseconds after which a packet is sent again.
    """
    # Without huge pages, cards, shared files and a socket of its own, DPDK needs no rights, and
    # several processes do not meet.
    eal = (
        f"--no-huge --no-shconf -m {_LAB_MEMORY} --no-pci --no-telemetry --log-level=error "
        f"--vdev={device}"
    )
    values = {
        "general.num_worker_threads": "1",
        "general.max_outstanding_packets": "256",
        "general.packet_numel": "256",
        "general.backend": "dpdk",
        "general.controller_port": str(controller_port),
        "general.timeout": str(timeout),
        "backend.dpdk.worker_ip": f"10.83.77.{rank}",
        "backend.dpdk.cores": cores,
        "backend.dpdk.extra_eal_options": eal,
        "backend.dpdk.pool_size": str(_LAB_POOL),
        "backend.dpdk.pool_cache_size": "256",
        "backend.dpdk.bulk_drain_tx_us": "10",
    }
    return compose(values, ("general", "backend.dpdk"))
