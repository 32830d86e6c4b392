"""Builds for a run: the simulator, and a plugin or a graft that links it or the user's library."""

from __future__ import annotations

import logging
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen.core.library import homes
from patchgen.core.torch import GRAFT, PLUGIN
from patchgen.errors import OptionsError, file_errors
from patchgen.extras.install import graft, plugin
from patchgen.extras.lab import simulator
from patchgen.extras.lab.lab import NO_DPDK
from patchgen.extras.train.access import NO_GRAFT, Access
from patchgen.options import Options
from patchgen.system import interpreter, paths
from patchgen.system.native import cache
from patchgen.templates import DIRECTORY

if TYPE_CHECKING:
    from patchgen.core.torch import Torch
    from patchgen.extras.train.job import Job
    from patchgen.system.native.cache import Cached

_LOGGER = logging.getLogger(__name__)
_GRAFT_FILE = "graft.so"


def build_way(way: str, job: Job, torch: Torch) -> Access:
    """Builds a plugin or a graft for a torch, unless the cache has it.

    Raises:
        OptionsError: the client library has no DPDK for the lab, or is not complete.
        ToolError: something could not be built.
        FileError: the cache cannot be written.
    """
    if job.options is None:
        if job.lab:
            raise OptionsError(NO_DPDK.format(library="the simulator"))
        return _BUILDERS[way](job, torch, _simulator_options(job))
    if job.lab and "DPDK" not in job.options.flags:
        raise OptionsError(NO_DPDK.format(library="what is built without --dpdk"))
    missing = homes.find_missing(job.options)
    if missing:
        lines = [*map(str, missing), "without the variables, it is the simulator"]
        raise OptionsError("\n".join(lines))
    return _BUILDERS[way](job, torch, job.options)


def _simulator_options(job: Job) -> Options:
    """Options for the simulator, which is installed in the cache."""

    def install(directory: str) -> None:
        _LOGGER.info("building the simulator")
        simulator.install(Path(directory))

    inputs = [
        cache.digest(os.path.dirname(simulator.__file__)),
        cache.describe_compiler(job.environ),
    ]
    home = cache.get_or_make(job.cache, "simulator", inputs, install).path
    return Options((), switchml_home=paths.from_native(home), grpc_home="", dpdk_home="")


def _build_plugin(job: Job, torch: Torch, options: Options) -> Access:
    def install(directory: str) -> None:
        wheel = plugin.build(options, torch, directory, cache=job.cache, environ=job.environ)
        with file_errors(), zipfile.ZipFile(wheel) as file:
            file.extractall(directory)
        os.unlink(wheel)

    inputs = _inputs(job, torch, options, os.path.dirname(plugin.__file__))
    kept = cache.get_or_make(job.cache, "plugin", inputs, install)
    path = interpreter.search_path(kept.path, job.environ)
    return Access(f"the plugin, {_origin(kept)}", environ={**NO_GRAFT, "PYTHONPATH": path})


def _build_graft(job: Job, torch: Torch, options: Options) -> Access:
    def install(directory: str) -> None:
        output = os.path.join(directory, _GRAFT_FILE)
        graft.build(options, torch, None, output, cache=job.cache, environ=job.environ)

    inputs = _inputs(job, torch, options, os.path.dirname(graft.__file__))
    kept = cache.get_or_make(job.cache, "graft", inputs, install)
    return Access(f"a graft, {_origin(kept)}", graft=os.path.join(kept.path, _GRAFT_FILE))


def _origin(kept: Cached) -> str:
    return "built by this command" if kept.new else "taken from the cache"


def _inputs(job: Job, torch: Torch, options: Options, package: str) -> list[object]:
    """Inputs of a build; where one differs, it is built again."""
    return [
        cache.digest(DIRECTORY, package),
        cache.describe_compiler(job.environ),
        [options.flags, options.switchml_home, options.grpc_home, options.dpdk_home],
        homes.stamp_homes(options),
        [torch.version, torch.commit, torch.root, torch.tag],
        torch.stamps,
    ]


_BUILDERS = {PLUGIN: _build_plugin, GRAFT: _build_graft}
