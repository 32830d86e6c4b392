"""Setup of the ranks: the torch, how SwitchML comes into it, and the switch."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen import switch
from patchgen.errors import OptionsError
from patchgen.ranks import launchers
from patchgen.ranks.builds import build_way
from patchgen.ranks.configs import simulator_notes
from patchgen.ranks.entry import NO_GRAFT, Entry, probe_entry, probe_graft, require_report
from patchgen.ranks.job import Setup
from patchgen.ranks.lab import MOST
from patchgen.ranks.ways import STOCK, choose_way
from patchgen.system import paths
from patchgen.torch import GRAFT, PLUGIN, TORCH

if TYPE_CHECKING:
    from typing import NoReturn

    from patchgen.ranks.job import Job
    from patchgen.torch import Torch

_LOGGER = logging.getLogger(__name__)
_LAB = "lab: the real client library through a software switch, on this machine"
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
    entry = _first_entry(job)
    installed = probe_graft(job, entry) if job.graft else probe_entry(job, entry)
    torch = installed.require_gloo()
    way = choose_way(installed, job.way)
    if way.name == STOCK:
        return _complete(job, stock_setup(torch))
    notes = []
    if way.is_built:
        _check_lab(job)
        entry = build_way(way.name, job, torch)
        installed = probe_entry(job, entry)
    elif not job.graft:
        entry = replace(entry, title=_INSTALLED[way.name])
        if job.options is not None:
            notes = [f"{entry.title} has its own client library: the variables have no effect"]
    report = require_report(installed, way.name, entry)
    simulated, flags = report["simulator"], report["flags"]
    return _complete(job, Setup(torch, way.name, entry, simulated, flags, notes=notes))


def stock_setup(torch: Torch) -> Setup:
    """Setup with Gloo alone, whatever the torch has of SwitchML."""
    return Setup(torch, STOCK, Entry("Gloo alone", {**NO_GRAFT, "SWITCHML_DISABLE": "1"}))


def _first_entry(job: Job) -> Entry:
    """Entry with which the torch is asked first: as it is, or with the user's graft."""
    python = paths.printable(paths.from_native(job.python))
    if job.graft:
        title = f"the graft {paths.printable(paths.from_native(job.graft))}"
        _LOGGER.info("looking at the torch of %s with %s", python, title)
        return Entry(title, graft=job.graft)
    _LOGGER.info("looking at the torch of %s", python)
    # An installed graft, which may not fit any more, stays out where it has no part.
    return Entry("", NO_GRAFT if job.way in {PLUGIN, STOCK} else {})


def _check_lab(job: Job) -> None:
    """Refuses the lab for what is to be built without DPDK."""
    if job.lab and not (job.options and "DPDK" in job.options.flags):
        _refuse_lab("the simulator" if job.options is None else "what is built without --dpdk")


def _refuse_lab(library: str) -> NoReturn:
    raise OptionsError(
        f"--lab: {library} has no DPDK; make one by: switchml-patch client build --dpdk -o DIR; "
        "then give --switchml-home DIR --dpdk"
    )


def _complete(job: Job, setup: Setup) -> Setup:
    """Adds the software switch, where the job is to have one, and the notes for the user."""
    notes = [*launchers.warnings(job.environ, job.workers)]
    if setup.simulated:
        notes += simulator_notes(job.configs, job.workers)
    notes += setup.notes
    able = setup.way == STOCK or "DPDK" in setup.flags.split()
    if job.lab and not able:
        _refuse_lab(f"the client library of {setup.entry.title}")
    named = job.options is not None and not job.configs.files and setup.way != STOCK
    if not (job.lab or (job.lab is None and named and able)):
        return replace(setup, notes=notes)
    if job.workers > MOST:
        raise OptionsError(f"--workers {job.workers}: the switch has room for {MOST}; take fewer")
    program = switch.build(job.cache, job.environ)
    return replace(setup, switch=program, notes=[*notes, _LAB])
