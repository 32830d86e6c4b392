"""switchml.cfg, the configuration of one rank: where it is, what it says, and how it is written."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from patchgen.payload.rank_hook import RANK_MARK, WORLD_MARK
from patchgen.system import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.client.library import Archive

NAME = "switchml.cfg"
PREPOSTPROCESSORS = ("cpu_exponent_quantizer", "bypass")
DEFAULT_PORT = 50099
MAX_WORKERS = 0xFFFF
LEAST_RDMA_TIMEOUT = 1000
"""Smallest `timeout` in milliseconds with which a group delegates over RDMA; see docs/client.md."""

_FILLED_IN = {"general.rank": RANK_MARK, "general.num_workers": WORLD_MARK}
_DEFAULTS = {"rank": "0", "num_workers": "1", "backend": "dummy", "timeout": "10"}
# Of the real library: the simulator does sum with the first two.
_NO_SUMS = {
    ("backend", "dummy"): "talks to nobody; take dpdk or rdma, or the simulator",
    ("prepostprocessor", "bypass"): "does not convert for the switch; take cpu_exponent_quantizer",
    ("instant_job_completion", "true"): "computes nothing; set it to false",
}


@dataclass(frozen=True)
class Config:
    """Configuration of a rank. Rank and number of workers are within the library's limits."""

    rank: int
    workers: int
    backend: str
    values: Mapping[str, str]
    """Values of the file by section and key, such as `general.rank`."""

    @property
    def without_hugepages(self) -> bool:
        """DPDK is told to do without."""
        try:
            options = shlex.split(self.values.get("backend.dpdk.extra_eal_options", ""))
        except ValueError:
            return False
        return "--no-huge" in options

    def doubts(self, library: Archive | None) -> tuple[str, ...]:
        """Reasons why ranks will not sum, and what to do about each, a line each.

        Args:
            library: the client library that reads the file; None where it is not known.
        """
        real = library if library is not None and not library.simulator else None
        return (*self._of_ranks(), *(self._of_library(real) if real else ()))

    def _of_ranks(self) -> Iterator[str]:
        if self.workers == 1:
            yield "num_workers = 1: each rank is alone and keeps its own values; set it to N"
        if self.rank >= self.workers:
            most = max(self.workers - 1, 0)
            yield f"rank = {self.rank}: ranks are 0 to {most}; each has its own file"

    def _of_library(self, library: Archive) -> Iterator[str]:
        """Yields settings that the real library refuses, or does not sum with."""
        if self.backend.upper() not in library.backends:
            built = ", ".join(library.backends).lower()
            yield f"backend = {self.backend}: the client library has {built}; take one of them"
        elif self.backend == "rdma" and library.timeouts:
            timeout = self.values.get("general.timeout", _DEFAULTS["timeout"])
            if _below(timeout, LEAST_RDMA_TIMEOUT):
                least = LEAST_RDMA_TIMEOUT
                yield f"timeout = {timeout}: too short for RDMA; set it to {least} or more"
        for (key, value), why in _NO_SUMS.items():
            if self.values.get(f"general.{key}", _DEFAULTS.get(key)) == value:
                yield f"{key} = {value}: nothing is summed, because it {why}"
        for name in sorted({key.split(".")[1] for key in self.values if key[:8] == "backend."}):
            if name.upper() not in library.backends:
                yield f"[backend.{name}]: unknown to the client library; remove it"


def places(named: str | None, host: str, cwd: str, etc: str = "/etc") -> list[str]:
    """Paths where the client library looks; the first file that exists counts.

    Args:
        named: the value of SWITCHML_CONFIG, which then is the only place.
        host: the name of this machine.
        cwd: the directory that a rank runs in.
        etc: the directory of the system's own configuration.
    """
    if named:
        return [os.path.normpath(os.path.join(cwd, named))]
    beside = (NAME, f"switchml-{host}.cfg")
    return [os.path.join(etc, NAME), *(os.path.join(cwd, name) for name in beside)]


def load(path: str) -> str:
    """The text of a file; bytes that are not UTF-8 stay what they are.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def save(path: str, text: str) -> None:
    """Writes a text of `load` or of `text`.

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
    """The lines as boost::program_options reads them."""
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
    """Values by section and key, as `general.rank`.

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
    general = {key: values.get(f"general.{key}", _DEFAULTS[key]) for key in _DEFAULTS}
    rank, workers = (_number(key, general[key]) for key in ("rank", "num_workers"))
    return Config(rank, workers, general["backend"], values)


def _number(key: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and int(value) <= MAX_WORKERS):
        raise ValueError(f"{key} = {value} is not a number from 0 to {MAX_WORKERS}")
    return int(value)


def _below(value: str, least: float) -> bool:
    try:
        return float(value) < least
    except ValueError:
        return False


def template(text: str) -> str:
    """A text with marks for the rank and the number of ranks, which each rank fills in."""
    lines = []
    begun = False
    for line in _scan(text):
        if line.key in _FILLED_IN:
            continue
        lines.append(line.text)
        if line.begins and line.section == "general." and not begun:
            begun = True
            lines += [f"{key.partition('.')[2]} = {mark}" for key, mark in _FILLED_IN.items()]
    if not begun:
        lines[:0] = [f"{key} = {mark}" for key, mark in _FILLED_IN.items()]
    return "\n".join(lines) + "\n"


def dummy(rank: int, workers: int) -> str:
    """The text for the library's dummy backend.

    It has only what every build of the library knows: one refuses a file with any other name.
    """
    return (
        f"[general]\nrank = {rank}\nnum_workers = {workers}\npacket_numel = 256\n"
        f"backend = dummy\nprepostprocessor = {PREPOSTPROCESSORS[0]}\n"
    )
