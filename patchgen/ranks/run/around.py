"""Whether the ranks are put around a software switch, and that switch."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from patchgen import switch
from patchgen.errors import OptionsError
from patchgen.ranks.lab import MOST
from patchgen.ranks.way import STOCK

if TYPE_CHECKING:
    from typing import NoReturn

    from patchgen.ranks.run.job import Job, Setup

NOTE = "lab: the real client library through a software switch, on this machine"
_LOGGER = logging.getLogger(__name__)


def with_switch(job: Job, setup: Setup) -> Setup:
    """The setup with the program of the switch, where the job is to have one.

    Raises:
        OptionsError: the job asks for one, and its client library cannot be connected to it.
        ToolError: it could not be built.
        FileError: the cache cannot be written.
    """
    if not _wanted(job, setup):
        return setup
    if job.workers > MOST:
        raise OptionsError(f"--workers {job.workers}: the switch has room for {MOST}; take fewer")
    program = switch.build(job.cache, job.environ)
    return dataclasses.replace(setup, switch=program, notes=[*setup.notes, NOTE])


def refuse(library: str) -> NoReturn:
    """Says that a client library cannot be connected to a switch.

    Raises:
        OptionsError: always.
    """
    raise OptionsError(
        f"--lab: {library} has no DPDK; make one by: switchml-patch client build --dpdk -o DIR; "
        "then give --switchml-home DIR --dpdk"
    )


def _wanted(job: Job, setup: Setup) -> bool:
    able = setup.way == STOCK or "DPDK" in setup.flags.split()
    if job.lab and not able:
        refuse(f"the client library of {setup.why}")
    named = job.options is not None and not job.configs and setup.way != STOCK
    return (named and able) if job.lab is None else job.lab
