"""Setup of the ranks: their torch, the variant of SwitchML in it, and the switch."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from patchgen.core.library import config
from patchgen.core.torch import GRAFT, PLUGIN, TORCH, Report, Torch, probe_torch
from patchgen.errors import OptionsError
from patchgen.extras.install import graft, plugin
from patchgen.extras.lab import simulator, switch
from patchgen.extras.lab.lab import MOST, NO_DPDK
from patchgen.extras.train.job import Job
from patchgen.extras.train.variants import STOCK, choose_variant
from patchgen.system import native, paths

SIMULATED = "the switch is simulated"
_LOGGER = logging.getLogger(__name__)
_NO_GRAFT = {"SWITCHML_GRAFT": "0"}
"""Keeps an installed graft from being loaded."""
_LAB = "lab: the real client library through a software switch, on this machine"
_INSTALLED = {
    TORCH: "this torch is patched",
    GRAFT: "the graft that is installed",
    PLUGIN: "the plugin that is installed",
}
_UNGUARDED = (
    "{python} has no SwitchML of its own: other commands train over Gloo there, and say nothing; "
    "install it with: switchml-patch plugin install --torch {python}"
)
_BUILT = {PLUGIN: "the plugin", GRAFT: "a graft"}
_BUILDERS = {PLUGIN: plugin.provide, GRAFT: graft.provide}
_SIMULATOR: Mapping[str, Any] = {"simulator": True, "flags": ""}
"""Report of a plugin or graft that links with the simulator."""
_TRUE = {"true", "yes", "on", "1"}  # for boost::program_options


@dataclass(frozen=True)
class Setup:
    """Torch of the ranks, the variant of SwitchML in it, and the switch."""

    torch: Torch
    variant: str
    """Name of the variant, one of `variants.VARIANTS` except auto."""
    title: str
    """Short description of the variant, for messages."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Environment with which an interpreter has this torch and SwitchML."""
    report: Report = field(default_factory=lambda: {"simulator": False, "flags": ""})
    """Report of SwitchML in this torch."""
    switch: str | None = None
    """Path of the program of the software switch; None without that switch."""
    notes: Sequence[str] = ()
    """Notes to print before the ranks start."""

    @property
    def simulated(self) -> bool:
        """True if the simulator sums instead of a switch."""
        return bool(self.report["simulator"])


def prepare(job: Job, directory: str) -> Setup:
    """Probe the torch of a job, choose the variant of SwitchML, and build what it needs.

    `directory` is empty, and is kept until the ranks have ended.

    Raises:
        OptionsError: this torch cannot have the variant or the switch that the user named.
        TreeError: the graft is for another torch.
        ToolError: the interpreter has no torch with Gloo, or something could not be built.
        FileError: the cache or the directory cannot be written.
    """
    python, notes = paths.describe(job.python), [*job.notes]
    if job.graft:
        title = f"the graft {paths.describe(job.graft)}"
        _LOGGER.info("looking at the torch of %s with %s", python, title)
        environ, installed = graft.probe_grafted(
            job.graft, title, job.python, job.environ, directory
        )
    else:
        _LOGGER.info("looking at the torch of %s", python)
        # An installed graft may no longer fit, so it is not loaded where it is not needed.
        environ = {**job.environ, **(_NO_GRAFT if job.variant in {PLUGIN, STOCK} else {})}
        installed = probe_torch(job.python, environ, headers=job.variant != STOCK)
    torch = installed.require_gloo()
    variant = choose_variant(installed, job.variant)
    if variant.name == STOCK:
        setup = stock_setup(job, torch)
    elif variant.is_built:
        setup = _build_setup(variant.name, job, torch, directory)
        if job.environ.keys() & {"SWITCHML_REQUIRE", "SWITCHML_FOR_GLOO"}:
            notes.append(_UNGUARDED.format(python=python))
    else:
        if not job.graft:
            title = _INSTALLED[variant.name]
            if job.options is not None:
                notes.append(f"{title} has its own client library: the variables have no effect")
        report = installed.require_report(variant.name, title)
        setup = Setup(torch, variant.name, title, environ, report)
    if not _has_lab(job, setup):
        if setup.simulated:
            notes.append(describe_switch(job))
        return replace(setup, notes=notes)
    program = native.get_or_build(switch.PROJECT, job.cache, job.environ).path
    return replace(setup, switch=program, notes=[*notes, _LAB])


def stock_setup(job: Job, torch: Torch) -> Setup:
    """Return a setup with Gloo alone, even if the torch has SwitchML."""
    environ = {**job.environ, **_NO_GRAFT, "SWITCHML_DISABLE": "1"}
    return Setup(torch, STOCK, "Gloo alone", environ)


def describe_switch(job: Job) -> str:
    """Return a note that says which process sums instead of the switch.

    Raises:
        OptionsError: a configuration cannot be read.
    """
    adder = "rank 0's process adds"
    if not job.configs:
        # The command may set another switchml.cfg for its ranks.
        unless = "" if job.workers else ", unless the command has its own switchml.cfg"
        return f"{SIMULATED}: {adder}, over TCP on this machine{unless}"
    try:
        values = config.parse(config.load(job.configs[0]))
    except ValueError:  # the ranks report what is wrong
        return SIMULATED
    if values.get("backend.simulator.external_aggregator", "").lower() in _TRUE:
        adder = "an aggregator of its own adds"
    host = values.get("general.controller_ip", "127.0.0.1")
    port = values.get("general.controller_port", config.DEFAULT_PORT)
    return f"{SIMULATED}: {adder}, at {host}:{port}"


def _has_lab(job: Job, setup: Setup) -> bool:
    """Return whether the ranks use a software switch."""
    able = setup.variant == STOCK or "DPDK" in setup.report["flags"].split()
    if job.lab and not able:
        raise OptionsError(NO_DPDK.format(library=f"the client library of {setup.title}"))
    named = job.options is not None and not job.configs and setup.variant != STOCK
    if not (job.lab or (job.lab is None and named and able)):
        return False
    if job.workers > MOST:
        raise OptionsError(f"--workers {job.workers}: the switch has room for {MOST}; take fewer")
    return True


def _build_setup(variant: str, job: Job, torch: Torch, directory: str) -> Setup:
    """Build a plugin or a graft for a torch, or take it from the cache."""
    options = job.options
    if job.lab and (options is None or "DPDK" not in options.flags):
        library = "the simulator" if options is None else "what is built without --dpdk"
        raise OptionsError(NO_DPDK.format(library=library))
    options = simulator.find_library(options, job.cache, job.environ)
    environ, new = _BUILDERS[variant](options, torch, job.cache, job.environ, directory)
    title = f"{_BUILT[variant]}, {'built by this command' if new else 'taken from the cache'}"
    report = _SIMULATOR
    if new or job.options is not None:
        report = probe_torch(job.python, environ, headers=False).require_report(variant, title)
    return Setup(torch, variant, title, environ, report)
