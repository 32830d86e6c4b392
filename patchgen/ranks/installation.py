"""What a Python interpreter, or a wheel, has of SwitchML: a patched torch, a graft, the plugin."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from patchgen import graft as grafting
from patchgen.errors import ToolError, TreeError, file_errors
from patchgen.patch.version import flags_of
from patchgen.payload import graft_hook
from patchgen.system import files, paths, zips
from patchgen.system.process import Program, side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LIMIT = 600.0  # seconds; the first import of a large torch reads gigabytes
_MARK = "switchml-status: "
_LONGEST = 300  # characters of a message
_MODULE = "torch/distributed/switchml.py"
_VERSION = "torch/version.py"

# Tells each finding at once, since what comes next may end the process.
_PROBE = r"""
import json, os, platform, sys
from importlib.util import find_spec

def tell(**found):
    sys.stdout.write("\nswitchml-status: " + json.dumps(found) + "\n")
    sys.stdout.flush()

hooks = [one for one in sys.meta_path if type(one).__module__ == "switchml_graft"]
spec = find_spec("torch")
root = os.path.dirname(os.path.abspath(spec.origin)) if spec and spec.origin else None
tell(python=platform.python_version(), root=root, library=hooks[0].wanted() if hooks else None)
if root:
    try:
        import torch
        tell(version=str(torch.__version__), commit=torch.version.git_version,
             cuda=torch.version.cuda)
        if hooks:
            tell(loaded=sys.modules["switchml_graft"].loaded,
                 problem=sys.modules["switchml_graft"].problem)
        if find_spec("torch.distributed.switchml"):
            from torch.distributed import switchml
            tell(report=switchml.report())
    except Exception as error:
        tell(failed="%s: %s" % (type(error).__name__, error))
    if find_spec("torch_switchml"):
        tell(plugin=True)
        import torch_switchml
        tell(plugin_report=torch_switchml.report())
"""


class Way(str, Enum):
    """What its Gloo process group is."""

    STOCK = "stock"
    PATCHED = "patched"
    GRAFTED = "grafted"
    BROKEN = "torch cannot be imported"
    NO_TORCH = "no torch"


@dataclass(frozen=True)
class Installation:
    """An interpreter or a wheel.

    `torch` has version, commit, cuda and root, as far as they are known. `flags` and `simulator`
    are those of the patched or grafted torch. `graft` is what the one that is to be loaded says of
    itself, and its path as `library`. `plugin` is the report of torch_switchml. Each problem is
    something that is there and does not fit, in words.
    """

    place: str
    way: Way
    python: str | None = None
    torch: Mapping[str, Any] | None = None
    flags: str | None = None
    simulator: bool | None = None
    graft: Mapping[str, Any] | None = None
    plugin: Mapping[str, Any] | None = None
    problems: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether there is a torch, and all that is there fits."""
        return not self.problems and self.way not in {Way.BROKEN, Way.NO_TORCH}


def look(python: str) -> Installation:
    """Asks an interpreter, which imports torch for it.

    Raises:
        ToolError: it cannot be started, or is none.
    """
    environ = {name: value for name, value in os.environ.items() if name != "SWITCHML_REQUIRE"}
    with files.scratch("status") as directory:
        program = Program([python, "-c", _PROBE], directory, environ)
        (ended,) = side_by_side([program], limit=_LIMIT)
    found: dict[str, Any] = {}
    for line in ended.out.decode(errors="replace").splitlines():
        if line.startswith(_MARK):
            found.update(json.loads(line[len(_MARK) :]))
    said = " ".join([ended.how or "gave no answer", *ended.last_lines(1)])[:_LONGEST]
    if "python" not in found:
        raise ToolError(f"{python}: {said}; is it a Python interpreter?")
    if found["root"] is None:
        return Installation(python, Way.NO_TORCH, found["python"])
    return _judged(python, found, said)


def _judged(python: str, found: Mapping[str, Any], said: str) -> Installation:
    report = found.get("report")
    way = Way.GRAFTED if found.get("loaded") else Way.PATCHED if report else Way.STOCK
    graft, problems = None, []
    if found["library"] is not None:
        try:
            graft = {**asdict(grafting.read(found["library"])), "library": found["library"]}
        except TreeError as error:
            problems.append(str(error))
    if found.get("problem"):
        problems = [found["problem"]]
    if "version" not in found:
        way = Way.BROKEN
        problems = [found.get("failed") or said]
    elif "failed" in found:
        problems.append(found["failed"])
    if "plugin" in found and "plugin_report" not in found:
        problems.append(f"torch_switchml cannot be imported: {said}")
    return Installation(
        place=python,
        way=way,
        python=found["python"],
        torch={key: found.get(key) for key in ("version", "commit", "cuda", "root")},
        flags=report["flags"] if report else None,
        simulator=report["simulator"] if report else None,
        graft=graft,
        plugin=found.get("plugin_report"),
        problems=tuple(problems),
    )


def unpack(wheel: str) -> Installation:
    """Looks into the wheel of a torch, without installing it.

    Raises:
        TreeError: it is no wheel, or of something else.
        FileError: it cannot be read.
    """
    with file_errors(), zips.reading(wheel, TreeError) as archive:
        if _VERSION not in archive.entries:
            raise TreeError(f"{paths.printable(wheel)}: no wheel of torch")
        torch = graft_hook.version_of(archive.read(_VERSION))
        way = Way.PATCHED if _MODULE in archive.entries else Way.STOCK
    flags = flags_of(torch["version"] or "") if way is Way.PATCHED else None
    return Installation(wheel, way, torch=torch, flags=None if flags is None else " ".join(flags))


def data(found: Installation) -> dict[str, Any]:
    """An installation for scripts."""
    values = {**asdict(found), "state": found.way.value, "problems": list(found.problems)}
    del values["way"]
    return values


def lines(found: Installation) -> Iterator[str]:
    """An installation for people: one line, then one for each thing that is there."""
    about = [f"Python {found.python}"] if found.python else []
    if found.torch is not None:
        commit = (found.torch.get("commit") or "unknown")[:12]
        where = f" in {found.torch['root']}" if "root" in found.torch else ""
        about.append(f"torch {found.torch.get('version')} (commit {commit}){where}")
    yield f"{paths.printable(found.place)}: {found.way.value}; {', '.join(about)}"
    if found.flags is not None:
        client = "" if found.simulator is None else f", {_client(found.simulator)}"
        yield f"  {found.way.value} with {found.flags or 'no flags'}{client}"
    if found.graft is not None:
        tensors = "CPU and CUDA tensors" if found.graft["cuda"] else "CPU tensors"
        library, made = found.graft["library"], found.graft["torch"]["version"]
        yield f"  graft: {library}, for torch {made}, {tensors}"
    if found.plugin is not None:
        flags = found.plugin["flags"] or "no flags"
        yield f"  plugin: torch_switchml with {flags}, {_client(found.plugin['simulator'])}"
    for problem in found.problems:
        yield f"  does not fit: {problem}"


def _client(simulator: bool) -> str:  # noqa: FBT001  # as reports have it
    return "the simulator" if simulator else "the real client library"
