"""Row about the switchml.cfg that a run here would read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.build.check.site import reason, shown
from patchgen.checks import Check

if TYPE_CHECKING:
    from patchgen.build.check.site import Site
    from patchgen.client.library import Archive

_NAME = "run: switchml.cfg"
_DEFAULTS = {"rank": "0", "num_workers": "1", "backend": "dummy"}
_MOST = 0xFFFF  # workers
# Of the real library: the simulator does sum with the first two.
_NO_SUMS = {
    ("backend", "dummy"): "talks to nobody; take dpdk or rdma, or the simulator",
    ("prepostprocessor", "bypass"): "does not convert for the switch; take cpu_exponent_quantizer",
    ("instant_job_completion", "true"): "computes nothing; set it to false",
}


def places(site: Site, host: str, etc: str = "/etc") -> list[str]:
    """Where the patched torch looks, the first that is there counts."""
    named = site.environ.get("SWITCHML_CONFIG")
    if named:
        return [site.path(named)]
    names = ("switchml.cfg", f"switchml-{host}.cfg")
    return [os.path.join(etc, "switchml.cfg"), *(site.path(name) for name in names)]


def parse(text: str) -> dict[str, str]:
    """Values by section and key, as `general.rank`, the way boost::program_options reads them.

    Raises:
        ValueError: the library would refuse it; the message names the line.
    """
    values: dict[str, str] = {}
    section = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].rstrip(".") + "."
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"line {number} is no 'key = value'")
        key = section + name.strip()
        if key in values:
            raise ValueError(f"line {number} gives {key} again")
        values[key] = value.strip()
    return values


def check(site: Site, archive: Archive | None, host: str, etc: str = "/etc") -> Check:
    """The configuration, and what of it will not sum over the ranks."""
    looked = places(site, host, etc)
    for path in looked:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except FileNotFoundError:
            continue
        except OSError as error:
            return _told(f"{shown(path)}: {reason(error)}; it has to be a file that can be read")
        try:
            values = parse(text)
            general = {key: values.get(f"general.{key}", _DEFAULTS[key]) for key in _DEFAULTS}
            rank, workers = _number("rank", general), _number("num_workers", general)
        except ValueError as error:
            return _told(f"{shown(path)}: {error}; mend it")
        found = f"{shown(path)}: rank {rank} of {workers}, backend {general['backend']}"
        problems = (
            *_ranks(rank, workers),
            *_library(general["backend"], values, archive),
        )
        return Check(_NAME, problems, found, required=False)
    tried = ", ".join(map(shown, looked))
    return _told(f"none of {tried}; write one for each rank, or allreduce stays with Gloo")


def _told(problem: str) -> Check:
    return Check(_NAME, (problem,), required=False)


def _number(key: str, general: dict[str, str]) -> int:
    value = general[key]
    if not (value.isascii() and value.isdigit() and int(value) <= _MOST):
        raise ValueError(f"{key} = {value} is not a number from 0 to {_MOST}")
    return int(value)


def _ranks(rank: int, workers: int) -> list[str]:
    wrong = []
    if workers == 1:
        wrong.append("num_workers = 1: each rank is alone and keeps its own values; set it to N")
    if rank >= workers:
        wrong.append(f"rank = {rank}: ranks are 0 to {max(workers - 1, 0)}; each has its own file")
    return wrong


def _library(backend: str, values: dict[str, str], archive: Archive | None) -> list[str]:
    """What the client library refuses, or does not sum with."""
    if archive is None or archive.simulator:
        return []
    wrong = []
    if backend.upper() not in archive.backends:
        built = ", ".join(archive.backends).lower()
        wrong.append(f"backend = {backend}: the client library has {built}; take one of them")
    for (key, value), why in _NO_SUMS.items():
        if values.get(f"general.{key}", _DEFAULTS.get(key)) == value:
            wrong.append(f"{key} = {value}: nothing is summed, because it {why}")
    named = {key.split(".")[1] for key in values if key.startswith("backend.")}
    unknown = sorted(name for name in named if name.upper() not in archive.backends)
    wrong += [f"[backend.{name}]: unknown to the client library; remove it" for name in unknown]
    return wrong
