"""Setup of the ranks: the torch, how SwitchML comes into it, and the switch."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen.core.torch import GRAFT, PLUGIN, TORCH
from patchgen.errors import OptionsError
from patchgen.extras.lab import switch
from patchgen.extras.lab.lab import MOST, NO_DPDK
from patchgen.extras.train.access import NO_GRAFT, Access, probe_access, probe_graft, require_report
from patchgen.extras.train.builds import build_way
from patchgen.extras.train.job import Setup
from patchgen.extras.train.ways import STOCK, choose_way
from patchgen.system import paths

if TYPE_CHECKING:
    from patchgen.core.torch import Torch
    from patchgen.extras.train.job import Job

_LOGGER = logging.getLogger(__name__)
_LAB = "lab: the real client library through a software switch, on {where}"
_INSTALLED = {
    TORCH: "this torch is patched",
    GRAFT: "the graft that is installed",
    PLUGIN: "the plugin that is installed",
}


def prepare(job: Job) -> Setup:
    """Probes the torch of a job, chooses the way, and builds what it needs.

    Raises:
        OptionsError: the torch cannot have the way or the switch that the user named.
        TreeError: the graft is not for this torch.
        ToolError: the interpreter has no torch with Gloo, or something could not be built.
        FileError: the cache or a temporary directory cannot be written.
    """
    access = _first_access(job)
    installed = probe_graft(job, access) if job.graft else probe_access(job, access)
    torch = installed.require_gloo()
    way = choose_way(installed, job.way)
    notes = []
    if way.is_built:
        access = build_way(way.name, job, torch)
        installed = probe_access(job, access)
    elif way.name != STOCK and not job.graft:
        access = replace(access, title=_INSTALLED[way.name])
        if job.options is not None:
            notes = [f"{access.title} has its own client library: the variables have no effect"]
    setup = stock_setup(torch)
    if way.name != STOCK:
        report = require_report(installed, way.name, access)
        setup = Setup(
            torch,
            way.name,
            access,
            report["simulator"],
            report["flags"],
            # A torch that an older switchml-patch has patched does not tell these.
            client=str(report.get("client", "")),
            protocol=str(report.get("protocol", "")),
            notes=notes,
        )
    return _complete(job, setup)


def stock_setup(torch: Torch) -> Setup:
    """Setup with Gloo alone, whatever the torch has of SwitchML."""
    return Setup(torch, STOCK, Access("Gloo alone", {**NO_GRAFT, "SWITCHML_DISABLE": "1"}))


def _first_access(job: Job) -> Access:
    """Access with which the torch is asked first: as it is, or with the user's graft."""
    python = paths.printable(paths.from_native(job.python))
    if job.graft:
        title = f"the graft {paths.printable(paths.from_native(job.graft))}"
        _LOGGER.info("looking at the torch of %s with %s", python, title)
        return Access(title, graft=job.graft)
    _LOGGER.info("looking at the torch of %s", python)
    # An installed graft, which may not fit any more, stays out where it has no part.
    return Access("", NO_GRAFT if job.way in {PLUGIN, STOCK} else {})


def _complete(job: Job, setup: Setup) -> Setup:
    """Adds the software switch, where the job is to have one, and the notes for the user."""
    able = setup.way == STOCK or "DPDK" in setup.flags.split()
    if job.lab and not able:
        raise OptionsError(NO_DPDK.format(library=f"the client library of {setup.access.title}"))
    named_here = job.hosts is None or job.configs.files  # else one host's switch serves all
    simulated = [job.configs.describe_switch(job.workers)] if setup.simulated and named_here else []
    notes = [*job.notes, *simulated, *setup.notes]
    named = job.options is not None and not job.configs.files and setup.way != STOCK
    if not (job.lab or (job.lab is None and not job.hosts and named and able)):
        return replace(setup, notes=notes)
    if job.workers > MOST:
        given = f"{job.workers} ranks" if job.hosts else f"--workers {job.workers}"
        raise OptionsError(f"{given}: the switch has room for {MOST}; take fewer")
    where = job.hosts.all[0].name if job.hosts else "this machine"
    notes = [*notes, _LAB.format(where=where)]
    if job.hosts and job.hosts.node:
        return replace(setup, notes=notes)
    return replace(setup, switch=switch.build(job.cache, job.environ), notes=notes)
