"""How SwitchML comes into the ranks: it is there, or it is built."""

from __future__ import annotations

import dataclasses
import logging
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen import graft, plugin
from patchgen.client import homes, library, simulator
from patchgen.errors import OptionsError, ToolError, TreeError, file_errors
from patchgen.options import Options
from patchgen.ranks.run import around, configs, launchers
from patchgen.ranks.run.job import MOST_WORKERS, Setup
from patchgen.ranks.way import AUTO, STOCK
from patchgen.system import cache, files, interpreter, paths
from patchgen.templates import DIRECTORY
from patchgen.torch import GRAFT, PLUGIN, TORCH, probe_torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.ranks.run.job import Job
    from patchgen.system.cache import Kept
    from patchgen.torch import Installed, Torch

_LOGGER = logging.getLogger(__name__)
_NO_GRAFT = {"SWITCHML_GRAFT": "0"}  # one that is installed is not loaded
_FOUND = {
    TORCH: "this torch is patched",
    GRAFT: "the graft that is installed",
    PLUGIN: "the plugin that is installed",
}


def prepare(job: Job) -> Setup:
    """Finds the way, and builds what it needs and the cache does not have.

    Args:
        job: what is to be run.

    Raises:
        OptionsError: the way that the user named is none here.
        TreeError: the graft is not for this torch.
        ToolError: the interpreter has no torch with Gloo, or something could not be built.
        FileError: the cache or a temporary directory cannot be written.
    """
    if job.workers > MOST_WORKERS:
        raise OptionsError(
            f"--workers {job.workers}: SwitchML's fixed point is for {MOST_WORKERS} ranks at most, "
            "since it may overflow with more; take fewer"
        )
    configs.check(job.configs, job.workers)
    setup = around.with_switch(job, _found(job))
    about = [*launchers.warnings(job.environ, job.workers), *configs.notes(job, setup)]
    return dataclasses.replace(setup, notes=[*about, *setup.notes])


def _found(job: Job) -> Setup:
    """The way that the job names, else the first that is there."""
    if job.graft is not None and job.way not in {AUTO, GRAFT}:
        raise OptionsError(f"--graft is not for --way {job.way}; drop one of them")
    if job.graft is not None:
        return _given(job, job.graft)
    _LOGGER.info("looking at the torch of %s", _shown(job.python))
    # An installed graft, which may not fit any more, stays out where it has no part.
    hidden = _NO_GRAFT if job.way in {PLUGIN, STOCK} else {}
    environ = {**job.environ, **hidden}
    asked = probe_torch(job.python, environ)
    torch = asked.require_gloo()
    if job.way == STOCK:
        return stock(torch)
    found = asked.reports
    way = next(iter(found), PLUGIN) if job.way == AUTO else job.way
    if way in found:
        setup = Setup(torch, way, _FOUND[way], environ=hidden)
        return _known(setup, found[way], ignored=job.options is not None)
    if TORCH in found:
        raise OptionsError(f"the torch of {_shown(job.python)} is patched; drop --way {way}")
    if way == TORCH:
        raise OptionsError(
            f"the torch {torch.version} of {_shown(job.python)} is not patched; "
            "drop --way, or build one with: switchml-patch build"
        )
    if job.lab and not (job.options and job.options.dpdk):
        around.refuse("the simulator" if job.options is None else "what is built without --dpdk")
    options = _options(job)
    make = _with_plugin if way == PLUGIN else _with_graft
    return _tried(job, make(job, torch, options))


def stock(torch: Torch) -> Setup:
    """The way without SwitchML, whatever the torch has of it."""
    return Setup(torch, STOCK, "Gloo alone", environ={**_NO_GRAFT, "SWITCHML_DISABLE": "1"})


def _given(job: Job, library: str) -> Setup:
    """The graft that the user names. Where it can be loaded, torch is imported once."""
    identity = graft.read(library)
    why = f"the graft {_shown(library)}"
    _LOGGER.info("looking at the torch of %s with %s", _shown(job.python), why)
    asked = _imported(job, {}, library)
    alone = asked
    if asked.torch is None:  # which need not be the fault of the graft
        alone = probe_torch(job.python, {**job.environ, **_NO_GRAFT})
    torch = alone.require_gloo()
    misfit = graft.misfit(identity, torch.root)
    if misfit:
        raise TreeError(f"{why}: {misfit}")
    return _loaded(asked, Setup(torch, GRAFT, why, graft=library))


def _tried(job: Job, setup: Setup) -> Setup:
    """A setup that is found to work in a process as the ranks will be.

    Raises:
        ToolError: it does not.
    """
    return _loaded(_imported(job, setup.environ, setup.graft), setup)


def _imported(job: Job, own: Mapping[str, str], library: str | None) -> Installed:
    """What the interpreter says as a rank will find it."""
    with files.scratch("try") as directory:
        environ = environment({**job.environ, **own}, library, directory)
        return probe_torch(job.python, environ)


def _loaded(asked: Installed, setup: Setup) -> Setup:
    """A setup with what was reported of it, where it was."""
    found = asked.reports
    if setup.way not in found:
        problem = asked.problem_of(setup.way)
        if problem:
            raise ToolError(f"{setup.why}: cannot be loaded: {problem}")
        raise ToolError(f"{setup.why}: is not loaded by {asked.interpreter.name}")
    return _known(setup, found[setup.way])


def environment(
    environ: Mapping[str, str], library: str | None, directory: str
) -> Mapping[str, str]:
    """An environment in which a graft is loaded, where there is one to load.

    Args:
        environ: the rest of it.
        library: the graft.
        directory: is empty, and stays as long as the processes do.
    """
    return environ if library is None else graft.launching(library, directory, environ)


def _known(setup: Setup, report: Mapping[str, Any], *, ignored: bool = False) -> Setup:
    """A setup with what the report says of the client library."""
    own = f"{setup.why} has its own client library: the variables have no effect"
    notes = [own] if ignored else []
    simulated, flags = report["simulator"], report["flags"]
    return dataclasses.replace(setup, simulated=simulated, flags=flags, notes=notes)


def _options(job: Job) -> Options:
    """For what is built: the user's, or those of the simulator in the cache."""
    if job.options is not None:
        missing = [str(one) for one in homes.find_missing(job.options)]
        if missing:
            raise OptionsError("\n".join([*missing, "without the variables, it is the simulator"]))
        return job.options

    def make(directory: str) -> None:
        _LOGGER.info("building the simulator")
        simulator.install(Path(directory))

    inputs = [cache.digest(os.path.dirname(simulator.__file__)), cache.compiler(job.environ)]
    home = cache.kept(job.cache, "simulator", inputs, make).path
    return Options(
        dpdk=False, mlx5=False, mlx4=False, rdma=False, debug=False,
        switchml_home=paths.from_native(home), grpc_home="", dpdk_home="",
    )  # fmt: skip


def _with_plugin(job: Job, torch: Torch, options: Options) -> Setup:
    def make(directory: str) -> None:
        wheel = plugin.build(options, torch, directory)
        with file_errors(), zipfile.ZipFile(wheel) as file:
            file.extractall(directory)
        os.unlink(wheel)

    inputs = _inputs(job, torch, options, os.path.dirname(plugin.__file__))
    kept = cache.kept(job.cache, "plugin", inputs, make)
    path = interpreter.search_path(kept.path, job.environ)
    why = f"the plugin, {_origin(kept)}"
    return Setup(torch, PLUGIN, why, environ={**_NO_GRAFT, "PYTHONPATH": path})


def _with_graft(job: Job, torch: Torch, options: Options) -> Setup:
    name = "graft.so"

    def make(directory: str) -> None:
        output = os.path.join(directory, name)
        graft.build(options, torch, None, output, cache=job.cache, environ=job.environ)

    inputs = _inputs(job, torch, options, os.path.dirname(graft.__file__))
    kept = cache.kept(job.cache, "graft", inputs, make)
    return Setup(torch, GRAFT, f"a graft, {_origin(kept)}", graft=os.path.join(kept.path, name))


def _origin(kept: Kept) -> str:
    return "built by this command" if kept.new else "taken from the cache"


def _inputs(job: Job, torch: Torch, options: Options, package: str) -> list[object]:
    """What makes a difference to what is built."""
    return [
        cache.digest(DIRECTORY, package),
        cache.compiler(job.environ),
        [options.flags, options.switchml_home, options.grpc_home, options.dpdk_home],
        cache.stamp(library.path(options.switchml_home)),
        [torch.version, torch.commit, torch.root, torch.tag],
        cache.stamp(os.path.join(torch.lib_dir, "libtorch_cpu.so")),
    ]


def _shown(path: str) -> str:
    return paths.printable(paths.from_native(path))
