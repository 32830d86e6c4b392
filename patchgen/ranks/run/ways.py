"""How SwitchML comes into the ranks: it is there, or it is built."""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen import graft, plugin
from patchgen.client import homes, library, simulator
from patchgen.errors import OptionsError, ToolError, TreeError, file_errors
from patchgen.options import Options
from patchgen.ranks.run import cache, configs
from patchgen.ranks.run.job import AUTO, GRAFT, PLUGIN, STOCK, TORCH, Setup
from patchgen.system import files, interpreter, paths, process, pythons
from patchgen.templates import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from patchgen.ranks.run.job import Job
    from patchgen.system.interpreter import Torch

    Report = Callable[[str], None]

SIMULATED = "the switch is simulated: rank 0's process adds, over TCP on this machine"
_NO_GRAFT = {"SWITCHML_GRAFT": "0"}  # one that is installed is not loaded
_FOUND = {
    TORCH: "this torch is patched",
    GRAFT: "the graft that is installed",
    PLUGIN: "the plugin that is installed",
}
_LIMIT = 600.0  # seconds; the first import of a large torch reads gigabytes
_PROBE = """
import json, sys, torch, torch.distributed
found = {}
try:
    from torch.distributed import switchml
    graft = getattr(sys.modules.get("switchml_graft"), "loaded", None)
    found["graft" if graft else "torch"] = switchml.report()
except ImportError:
    pass
if not any(found.values()):
    try:
        import torch_switchml
        found["plugin"] = torch_switchml.report()
    except ImportError:
        pass
print(json.dumps({way: report for way, report in found.items() if report}))
"""


def prepare(job: Job, report: Report) -> Setup:
    """Finds the way, and builds what it needs and the cache does not have.

    Args:
        job: what is to be run.
        report: is told of each step.

    Raises:
        OptionsError: the way that the user named is none here.
        TreeError: the graft is not for this torch.
        ToolError: the interpreter has no torch with Gloo, or something could not be built.
        FileError: the cache or a temporary directory cannot be written.
    """
    configs.check(job.configs, job.workers)
    report(f"looking at the torch of {_shown(job.python)}")
    torch = interpreter.inspect(job.python)
    if job.way == STOCK:
        return Setup(torch, STOCK, "Gloo alone", environ={**_NO_GRAFT, "SWITCHML_DISABLE": "1"})
    if job.graft is not None and job.way not in {AUTO, GRAFT}:
        raise OptionsError(f"--graft is not for --way {job.way}; drop one of them")
    if job.graft is not None:
        why = f"the graft {_shown(job.graft)}"
        misfit = graft.misfit(graft.read(job.graft), torch.root)
        if misfit:
            raise TreeError(f"{why}: {misfit}")
        return _tried(job, Setup(torch, GRAFT, why, graft=job.graft))
    hidden = _NO_GRAFT if job.way == PLUGIN else {}
    found = _probe(job, hidden)
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
    options = _options(job, report)
    make = _with_plugin if way == PLUGIN else _with_graft
    return _tried(job, make(job, torch, options, report))


def _probe(job: Job, environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What a process of the interpreter has of SwitchML: its report, by way."""
    command = [job.python, "-c", _PROBE]
    answer = process.run(command, cwd="/", env={**job.environ, **environ}, limit=_LIMIT)
    found: dict[str, dict[str, Any]] = json.loads(answer.splitlines()[-1])
    return found


def _tried(job: Job, setup: Setup) -> Setup:
    """A setup that is found to work in a process as the ranks will be.

    Raises:
        ToolError: it does not.
    """
    with files.scratch("try") as directory:
        environ = environment({**job.environ, **setup.environ}, setup, directory)
        try:
            found = _probe(job, environ)
        except ToolError as error:
            told = str(error).splitlines()[-1]
            raise ToolError(f"{setup.why}: cannot be loaded: {told}") from error
    if setup.way not in found:
        raise ToolError(f"{setup.why}: is not loaded by {_shown(job.python)}")
    return _known(setup, found[setup.way])


def environment(environ: Mapping[str, str], setup: Setup, directory: str) -> Mapping[str, str]:
    """An environment in which the graft is loaded, where there is one to load.

    Args:
        environ: the rest of it.
        setup: the way.
        directory: is empty, and stays as long as the processes do.
    """
    if setup.graft is None:
        return environ
    return graft.launching(setup.graft, directory, environ)


def _known(setup: Setup, report: Mapping[str, Any], *, ignored: bool = False) -> Setup:
    """A setup with what the report says of the client library."""
    notes = [SIMULATED] if report["simulator"] else []
    if ignored:
        notes.append(f"{setup.why} has its own client library: the variables have no effect")
    return dataclasses.replace(setup, simulated=report["simulator"], notes=notes)


def _options(job: Job, report: Report) -> Options:
    """For what is built: the user's, or those of the simulator in the cache."""
    if job.options is not None:
        missing = homes.missing(job.options)
        if missing:
            raise OptionsError("\n".join([*missing, "without the variables, it is the simulator"]))
        return job.options

    def make(directory: str) -> None:
        report("building the simulator")
        simulator.install(Path(directory), report=lambda _: None)

    inputs = [cache.digest(os.path.dirname(simulator.__file__)), cache.compiler(job.environ)]
    home = cache.kept(job.cache, "simulator", inputs, make)
    return Options(
        dpdk=False, mlx5=False, mlx4=False, rdma=False, debug=False,
        switchml_home=paths.from_native(home), grpc_home="", dpdk_home="",
    )  # fmt: skip


def _with_plugin(job: Job, torch: Torch, options: Options, report: Report) -> Setup:
    def make(directory: str) -> None:
        wheel = plugin.build(options, torch, directory, report)
        with file_errors(), zipfile.ZipFile(wheel) as file:
            file.extractall(directory)
        os.unlink(wheel)

    inputs = _inputs(job, torch, options, os.path.dirname(plugin.__file__))
    directory = cache.kept(job.cache, "plugin", inputs, make)
    path = pythons.search_path(directory, job.environ)
    why = "the plugin, built by this command"
    return Setup(torch, PLUGIN, why, environ={**_NO_GRAFT, "PYTHONPATH": path})


def _with_graft(job: Job, torch: Torch, options: Options, report: Report) -> Setup:
    name = "graft.so"

    def make(directory: str) -> None:
        output = os.path.join(directory, name)
        graft.build(options, torch, None, output, report, cache=job.cache)

    inputs = _inputs(job, torch, options, os.path.dirname(graft.__file__))
    directory = cache.kept(job.cache, "graft", inputs, make)
    why = "a graft, built by this command"
    return Setup(torch, GRAFT, why, graft=os.path.join(directory, name))


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
