"""What a Python interpreter, or a wheel, has of SwitchML: a patched torch, a graft, the plugin."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from patchgen import graft as grafting
from patchgen.errors import TreeError, file_errors
from patchgen.patch.version import flags_of
from patchgen.payload import graft_hook, probe
from patchgen.ranks.way import GRAFT, PLUGIN, TORCH
from patchgen.system import interpreter, paths, zips

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.system.interpreter import Interpreter

_MODULE = "torch/distributed/switchml.py"
_VERSION = "torch/version.py"


class State(str, Enum):
    """What its Gloo process group is."""

    STOCK = "stock"
    PATCHED = "patched"
    GRAFTED = "grafted"
    BROKEN = "torch cannot be imported"
    NO_TORCH = "no torch"


_STATES = {GRAFT: State.GRAFTED, TORCH: State.PATCHED}


@dataclass(frozen=True)
class Installation:
    """An interpreter or a wheel.

    `torch` has version, commit, cuda and root, as far as they are known. `flags` and `simulator`
    are those of the patched or grafted torch. `graft` is what the one that is to be loaded says of
    itself, and its path as `library`. `plugin` is the report of torch_switchml. Each problem is
    something that is there and does not fit, in words.
    """

    place: str
    state: State
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
        return not self.problems and self.state not in {State.BROKEN, State.NO_TORCH}


def look(python: str, environ: Mapping[str, str]) -> Installation:
    """Asks an interpreter, which imports torch for it.

    Args:
        python: its path.
        environ: of its process.

    Raises:
        ToolError: it cannot be started, or is none.
    """
    kept = {name: value for name, value in environ.items() if name != "SWITCHML_REQUIRE"}
    asked = interpreter.ask(python, kept, torch=True, switchml=True)
    if asked.root is None and probe.WHERE not in asked.problems:
        return Installation(python, State.NO_TORCH, asked.version)
    return _judged(python, asked)


def reports(asked: Interpreter) -> dict[str, Mapping[str, Any]]:
    """What an interpreter reports of SwitchML, by way."""
    way = GRAFT if (asked.found.get(probe.HOOK) or {}).get("loaded") else TORCH
    found = {way: asked.found.get(probe.PATCH), PLUGIN: asked.found.get(probe.PLUGIN)}
    return {name: report for name, report in found.items() if report}


def problem(asked: Interpreter, way: str) -> str:
    """Why an interpreter reports nothing of a way; empty where that is not there."""
    step = probe.PLUGIN if way == PLUGIN else probe.PATCH
    hook = asked.found.get(probe.HOOK) or {}
    return asked.problems.get(probe.TORCH) or asked.problems.get(step) or hook.get("problem") or ""


def _judged(python: str, asked: Interpreter) -> Installation:
    found = reports(asked)
    state = next((state for way, state in _STATES.items() if way in found), State.STOCK)
    report = found.get(TORCH) or found.get(GRAFT)
    hook = asked.found.get(probe.HOOK) or {}
    graft, problems = None, []
    if hook.get("wanted") is not None:
        try:
            graft = {**asdict(grafting.read(hook["wanted"])), "library": hook["wanted"]}
        except TreeError as error:
            problems.append(str(error))
    if hook.get("problem"):
        problems = [hook["problem"]]
    if probe.TORCH not in asked.found:
        state = State.BROKEN
        problems = [asked.problems.get(probe.TORCH) or asked.problems[probe.WHERE]]
    elif probe.PATCH in asked.problems:
        problems.append(asked.problems[probe.PATCH])
    if probe.PLUGIN in asked.problems:
        problems.append(f"torch_switchml cannot be imported: {asked.problems[probe.PLUGIN]}")
    torch = {"root": asked.root, **asked.found.get(probe.TORCH, {})}
    return Installation(
        place=python,
        state=state,
        python=asked.version,
        torch={key: torch.get(key) for key in ("version", "commit", "cuda", "root")},
        flags=report["flags"] if report else None,
        simulator=report["simulator"] if report else None,
        graft=graft,
        plugin=found.get(PLUGIN),
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
        state = State.PATCHED if _MODULE in archive.entries else State.STOCK
    flags = flags_of(torch["version"] or "") if state is State.PATCHED else None
    return Installation(wheel, state, torch=torch, flags=None if flags is None else " ".join(flags))
