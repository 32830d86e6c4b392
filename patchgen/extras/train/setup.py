"""Setup of the ranks: the torch, how SwitchML comes into it, and the switch."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen.core.library import config, homes
from patchgen.core.torch import GRAFT, PLUGIN, TORCH, Installed, Report, Torch, probe_torch
from patchgen.errors import OptionsError, ToolError, TreeError
from patchgen.extras.install import graft, plugin
from patchgen.extras.lab import simulator, switch
from patchgen.extras.lab.lab import MOST, NO_DPDK
from patchgen.extras.train.job import Job
from patchgen.extras.train.ways import STOCK, choose_way
from patchgen.options import Options
from patchgen.system import files, interpreter, paths
from patchgen.system.native import cache, cmake

_LOGGER = logging.getLogger(__name__)
_NO_GRAFT = {"SWITCHML_GRAFT": "0"}
"""Variables with which an installed graft is not loaded."""
_LAB = "lab: the real client library through a software switch, on this machine"
_ORIGINS = {True: "built by this command", False: "taken from the cache"}
_INSTALLED = {
    TORCH: "this torch is patched",
    GRAFT: "the graft that is installed",
    PLUGIN: "the plugin that is installed",
}
_SIMULATOR: Mapping[str, Any] = {"simulator": True, "flags": ""}
"""Report of a plugin or a graft that links the simulator."""
_NO_REPORT: Mapping[str, Any] = {"simulator": False, "flags": ""}
_TRUE = {"true", "yes", "on", "1"}  # for boost::program_options


@dataclass(frozen=True)
class Access:
    """Access of a rank to SwitchML: variables, and what is not installed."""

    title: str
    """Description in a few words."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables of a rank that differ from the job's."""
    graft: str | None = None
    """Path of a graft that is not installed."""
    plugin: Mapping[str, bytes] = field(default_factory=dict)
    """Files of a plugin that is not installed, by path."""

    def extend(self, environ: Mapping[str, str], directory: str) -> Mapping[str, str]:
        """Extends an environment to that of a rank.

        Args:
            environ: the rest of the environment.
            directory: an empty directory that stays as long as the ranks do.

        Raises:
            FileError: the directory cannot be written.
        """
        environ = {**environ, **self.environ}
        if self.graft is not None:
            return graft.launching(self.graft, directory, environ)
        if not self.plugin:
            return environ
        cmake.write_project(self.plugin, directory)
        return {**environ, "PYTHONPATH": interpreter.search_path(directory, environ)}


_STOCK = Access("Gloo alone", {**_NO_GRAFT, "SWITCHML_DISABLE": "1"})


@dataclass(frozen=True)
class Setup:
    """Setup of the ranks: their torch, how SwitchML comes into it, and the switch."""

    torch: Torch
    way: str
    """Name of the way: of `ways.WAYS`, but not auto."""
    access: Access
    simulated: bool = False
    """True where the switch is the simulator."""
    switch: str | None = None
    """Program of the software switch that the ranks are around; None: there is none."""
    notes: Sequence[str] = ()
    """Lines for the user."""


def prepare(job: Job) -> Setup:
    """Probes the torch of a job, chooses the way, and builds what it needs.

    Raises:
        OptionsError: the torch cannot have the way or the switch that the user named.
        TreeError: the graft is not for this torch.
        ToolError: the interpreter has no torch with Gloo, or something could not be built.
        FileError: the cache or a temporary directory cannot be written.
    """
    access = _first_access(job)
    installed = _probe_graft(job, access) if job.graft else _probe_access(job, access)
    torch = installed.require_gloo()
    way = choose_way(installed, job.way)
    notes = [*job.notes]
    if way.name == STOCK:
        access, report = _STOCK, _NO_REPORT
    elif way.is_built:
        access, report = _build_way(way.name, job, torch)
    elif job.graft:
        report = _require_report(installed, way.name, access)
    else:
        access = Access(_INSTALLED[way.name], access.environ)
        report = _require_report(installed, way.name, access)
        if job.options is not None:
            notes.append(f"{access.title} has its own client library: the variables have no effect")
    simulated, flags = report["simulator"], report["flags"]
    if simulated:
        notes.append(describe_switch(job))
    if not _has_lab(job, access, way.name, flags):
        return Setup(torch, way.name, access, simulated, None, notes)
    program = switch.build(job.cache, job.environ)
    return Setup(torch, way.name, access, simulated, program, [*notes, _LAB])


def stock_setup(torch: Torch) -> Setup:
    """Setup with Gloo alone, whatever the torch has of SwitchML."""
    return Setup(torch, STOCK, _STOCK)


def describe_switch(job: Job) -> str:
    """Describes a simulated switch: which process adds.

    Raises:
        OptionsError: a configuration cannot be read.
    """
    adder = "rank 0's process adds"
    if not job.configs:
        # The command may name another file for its ranks, which is not known before.
        unless = "" if job.workers else ", unless the command has its own switchml.cfg"
        return f"the switch is simulated: {adder}, over TCP on this machine{unless}"
    try:
        values = config.parse(config.load(job.configs[0]))
    except ValueError:  # the ranks say what is wrong with it
        return "the switch is simulated"
    if values.get("backend.simulator.external_aggregator", "").lower() in _TRUE:
        adder = "an aggregator of its own adds"
    host = values.get("general.controller_ip", "127.0.0.1")
    port = values.get("general.controller_port", config.DEFAULT_PORT)
    return f"the switch is simulated: {adder}, at {host}:{port}"


def _first_access(job: Job) -> Access:
    """Access with which the torch is asked first: as it is, or with the user's graft."""
    python = paths.describe(job.python)
    if job.graft:
        title = f"the graft {paths.describe(job.graft)}"
        _LOGGER.info("looking at the torch of %s with %s", python, title)
        return Access(title, graft=job.graft)
    _LOGGER.info("looking at the torch of %s", python)
    # An installed graft, which may not fit any more, stays out where it has no part.
    return Access("", _NO_GRAFT if job.way in {PLUGIN, STOCK} else {})


def _has_lab(job: Job, access: Access, way: str, flags: str) -> bool:
    """True where the ranks are to be around a software switch.

    Raises:
        OptionsError: they cannot be.
    """
    able = way == STOCK or "DPDK" in flags.split()
    if job.lab and not able:
        raise OptionsError(NO_DPDK.format(library=f"the client library of {access.title}"))
    named = job.options is not None and not job.configs and way != STOCK
    if not (job.lab or (job.lab is None and named and able)):
        return False
    if job.workers > MOST:
        raise OptionsError(f"--workers {job.workers}: the switch has room for {MOST}; take fewer")
    return True


def _probe_access(job: Job, access: Access) -> Installed:
    """Probes the torch of a job in the environment of its ranks.

    Raises:
        ToolError: the interpreter is none, or cannot be started.
        FileError: the temporary directory cannot be written.
    """
    with files.scratch("try") as directory:
        return probe_torch(job.python, access.extend(job.environ, directory))


def _probe_graft(job: Job, access: Access) -> Installed:
    """Probes the torch of a job with the graft that the user names. Imports torch once.

    Raises:
        TreeError: the graft cannot be read, or is not for this torch.
        ToolError: the interpreter has no torch with Gloo.
        FileError: the temporary directory cannot be written.
    """
    identity = graft.read(access.graft or "")
    installed = found = _probe_access(job, access)
    if installed.torch is None:  # which need not be the fault of the graft
        found = _probe_access(job, Access("", _NO_GRAFT))
    misfit = graft.misfit(identity, found.require_gloo().root)
    if misfit:
        raise TreeError(f"{access.title}: {misfit}")
    _require_report(installed, GRAFT, access)
    return installed


def _require_report(installed: Installed, way: str, access: Access) -> Report:
    """Returns the report of a way that has to be there.

    Raises:
        ToolError: the torch has no such report.
    """
    report = installed.reports.get(way)
    if report is not None:
        return report
    problem = installed.problem_of(way)
    if problem:
        raise ToolError(f"{access.title}: cannot be loaded: {problem}")
    raise ToolError(f"{access.title}: is not loaded by {installed.interpreter.name}")


def _build_way(way: str, job: Job, torch: Torch) -> tuple[Access, Report]:
    """Builds a plugin or a graft for a torch, unless the cache has it.

    Returns:
        Access with it, and its report.

    Raises:
        OptionsError: the client library has no DPDK for the lab, or is not complete.
        ToolError: something could not be built, or the torch does not take it.
        FileError: the cache cannot be written.
    """
    options = job.options
    if options is None:
        options = _install_simulator(job)
    else:
        _check_options(job, options)
    access, new = _BUILDERS[way](job, torch, options)
    if not new and job.options is None:
        return access, _SIMULATOR
    return access, _require_report(_probe_access(job, access), way, access)


def _build_plugin(job: Job, torch: Torch, options: Options) -> tuple[Access, bool]:
    request = plugin.PluginRequest(options, torch, job.cache, job.environ)
    package = plugin.compile_package(request)
    title = f"the plugin, {_ORIGINS[package.product.new]}"
    return Access(title, _NO_GRAFT, plugin=package.files), package.product.new


def _build_graft(job: Job, torch: Torch, options: Options) -> tuple[Access, bool]:
    request = graft.GraftRequest(options, torch, graft.GraftOrigin(job.cache), job.environ)
    product = graft.compile_graft(request).product
    return Access(f"a graft, {_ORIGINS[product.new]}", graft=product.path), product.new


def _check_options(job: Job, options: Options) -> None:
    """Checks the client library that the user named."""
    if job.lab and "DPDK" not in options.flags:
        raise OptionsError(NO_DPDK.format(library="what is built without --dpdk"))
    missing = homes.find_missing(options)
    if missing:
        lines = [*map(str, missing), "without the variables, it is the simulator"]
        raise OptionsError("\n".join(lines))


def _install_simulator(job: Job) -> Options:
    """Options for the simulator, which is installed in the cache."""
    if job.lab:
        raise OptionsError(NO_DPDK.format(library="the simulator"))

    def install(directory: str) -> None:
        _LOGGER.info("building the simulator")
        simulator.install(Path(directory))

    inputs = [
        cache.digest(os.path.dirname(simulator.__file__)),
        cache.describe_compiler(job.environ),
    ]
    home = cache.get_or_make(job.cache, "simulator", inputs, install).path
    return Options((), switchml_home=paths.from_native(home), grpc_home="", dpdk_home="")


_BUILDERS = {PLUGIN: _build_plugin, GRAFT: _build_graft}
