"""The configuration of a rank, switchml.cfg: where it lies, how it is read and written."""

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
"""Value that each rank replaces by its own."""

_BY_RANK = {setting.name for setting in SETTINGS if setting.by_rank}
_PLACES = "/etc/switchml.cfg, ./switchml.cfg or ./switchml-<hostname>.cfg, the first that exists"
# Each thread has two pools of so many buffers. EAL allocates so many MiB, enough for the pools of 5
# threads.
_LAB_POOL, _LAB_MEMORY = 8192, 256


@dataclass(frozen=True)
class Config:
    """Configuration of a rank, whose numbers are within the library's limits."""

    rank: int | None
    """None where the rank in the process group is filled in."""
    workers: int | None
    """None where the size of the process group is filled in."""
    backend: str
    values: Mapping[str, str]
    """Values by section and key, such as `general.rank`."""


def load(path: str) -> str:
    """Return the text of a file; bytes that are not UTF-8 become surrogate escapes.

    Raises:
        OptionsError: the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as error:
        raise OptionsError(
            f"{paths.describe(path)}: {error.strerror}; give a switchml.cfg"
        ) from error


def save(path: str, text: str) -> None:
    """Write a text that `load` or `compose` returned.

    Raises:
        OSError: the file cannot be written.
    """
    files.write(path, text.encode("utf-8", "surrogateescape"))


class _Line(NamedTuple):
    text: str
    section: str
    """Section that the line begins or is in, with a final dot; empty before the first."""
    begins: bool
    key: str
    """Section and key; empty where the line sets no value."""
    value: str
    """Value of the key, else the whole text without its comment."""


def _scan(text: str) -> Iterator[_Line]:
    """Yield the lines as boost::program_options parses them."""
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
    """Return the values of a text by section and key, such as `general.rank`.

    Raises:
        ValueError: the library would refuse the text; the message names the line.
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
    """Parse a configuration.

    Raises:
        ValueError: the library would refuse the text; the message has the reason.
    """
    values = parse(text)
    rank, workers = (_number(key, values.get(f"general.{key}")) for key in ("rank", "num_workers"))
    return Config(rank, workers, values.get("general.backend", DEFAULTS["general.backend"]), values)


def _number(key: str, value: str | None) -> int | None:
    """Return the number of a setting; None where each rank fills it in."""
    if value in {None, AUTO} or "${" in value:
        return None
    if not (value.isascii() and value.isdigit() and int(value) <= MAX_WORKERS):
        raise ValueError(f"{key} = {value} is not a number from 0 to {MAX_WORKERS}")
    return int(value)


def without_numbers(text: str) -> str:
    """Remove the rank and the number of workers, so that each rank fills them in."""
    return "".join(f"{line.text}\n" for line in _scan(text) if line.key not in _BY_RANK)


def compose(values: Mapping[str, str], sections: Collection[str] = ()) -> str:
    """Compose the text of a file, with a comment for each setting.

    Args:
        values: values by name, such as `general.rank`; all are written.
        sections: sections of which all settings are written. Those that each rank fills in become
        comments, because SwitchML's own programs cannot read `auto`.

    Raises:
        ValueError: a name is not one of a setting.
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
    """Compose the text for the dummy backend, with settings that every build knows."""
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
    """Compose the text for a library with these flags, without settings unknown to it."""
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
    """Compose the text for the simulator; the real library accepts it without `aggregator`.

    Args:
        rank: number of the worker; None: each fills in its own.
        workers: number of workers; None: the size of the process group.
        controller_port: port of rank 0 on the loopback.
        prepostprocessor: one of `PREPOSTPROCESSORS`.
        aggregator: HOST:PORT of a switch process, instead of rank 0.

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
    """Compose the text for a rank of the lab, whose port is a virtual device of DPDK.

    Args:
        device: value of DPDK's option --vdev.
        controller_port: port of the controller on the loopback.
        rank: number of the rank, or a reference to a variable.
        cores: core of its thread, or a reference to a variable.
        timeout: milliseconds after which a packet is sent again.
    """
    # Without huge pages, cards, shared files and a telemetry socket, DPDK needs no privileges, and
    # its processes do not conflict.
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
