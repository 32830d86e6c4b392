"""The switchml.cfg of each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchgen.client import config
from patchgen.errors import OptionsError
from patchgen.ranks.lab import cpus
from patchgen.ranks.way import STOCK
from patchgen.system import paths
from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.ranks.lab import Lab
    from patchgen.ranks.run.job import Job, Setup


_TRUE = {"true", "yes", "on", "1"}  # for boost::program_options


def check(files: Sequence[str], workers: int) -> None:
    """Refuses configurations that cannot be those of the ranks.

    Raises:
        OptionsError: one cannot be read, or their number does not fit.
    """
    for path in files:
        _read(path)
    if len(files) > 1 and workers not in (0, len(files)):
        raise OptionsError(
            f"{len(files)} configurations for {workers} ranks; give one for each rank, "
            "or one in which the rank is filled in"
        )


def of(job: Job, setup: Setup, lab: Lab | None = None) -> dict[str, Any]:
    """What the ranks have to know: `files`, one for each, or a `template`, or neither.

    Raises:
        OptionsError: a configuration cannot be read.
    """
    if lab is not None:
        return _known(template=lab.config, cpus=cpus())
    if setup.way == STOCK:
        return _known()
    if len(job.configs) == 1 and job.workers != 1:
        return _known(template=config.template(_read(job.configs[0])))
    if job.configs:
        return _known(files=job.configs)
    made = config.compose_simulated(controller_port=free_port())
    return _known(template=config.template(made) if setup.simulated else None)


def notes(job: Job, setup: Setup) -> list[str]:
    """Lines on a simulated switch: who adds.

    Raises:
        OptionsError: a configuration cannot be read.
    """
    if not setup.simulated:
        return []
    adder = "rank 0's process adds"
    if not job.configs:
        # The command may name another file for its ranks, which is not known before.
        unless = "" if job.workers else ", unless the command has its own switchml.cfg"
        return [f"the switch is simulated: {adder}, over TCP on this machine{unless}"]
    try:
        values = config.parse(_read(job.configs[0]))
    except ValueError:  # the ranks say what is wrong with it
        return ["the switch is simulated"]
    if values.get("backend.simulator.external_aggregator", "").lower() in _TRUE:
        adder = "an aggregator of its own adds"
    host = values.get("general.controller_ip", "127.0.0.1")
    port = values.get("general.controller_port", config.DEFAULT_PORT)
    return [f"the switch is simulated: {adder}, at {host}:{port}"]


def _known(
    files: Sequence[str] = (), template: str | None = None, cpus: Sequence[str] = ()
) -> dict[str, Any]:
    return {"files": [*files], "template": template, "cpus": [*cpus]}


def _read(path: str) -> str:
    try:
        return config.load(path)
    except OSError as error:
        told = paths.printable(paths.from_native(path))
        raise OptionsError(f"{told}: {error.strerror}; give a switchml.cfg") from error
