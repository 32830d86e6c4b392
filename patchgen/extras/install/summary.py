"""Summary of an installed torch, or of a wheel of torch, for `status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from patchgen.core.patch.version import flags_of
from patchgen.core.torch import Installed, name_client, probe_torch
from patchgen.errors import TreeError, file_errors
from patchgen.extras.install.payload import graft_hook
from patchgen.system import paths, zips

_MODULE = "torch/distributed/switchml.py"
_VERSION = "torch/version.py"
_TOLD = ("version", "commit", "cuda", "root")


class Condition(str, Enum):
    """State of a torch's Gloo process group."""

    STOCK = "stock"
    PATCHED = "patched"
    GRAFTED = "grafted"
    BROKEN = "torch cannot be imported"
    NO_TORCH = "no torch"


@dataclass(frozen=True)
class Summary:
    """Summary of the SwitchML in an interpreter or a wheel.

    `torch` has version, commit, cuda and root, as far as they are known. `flags` and `simulator`
    describe a patched or grafted torch. `graft` is the identity of the graft that the interpreter
    loads, and its path as `library`. `plugin` is the report of torch_switchml. `problems` lists
    what is installed but does not fit.
    """

    place: str
    state: Condition
    python: str | None = None
    torch: Mapping[str, Any] | None = None
    flags: str | None = None
    simulator: bool | None = None
    graft: Mapping[str, Any] | None = None
    plugin: Mapping[str, Any] | None = None
    problems: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """True if torch can be imported, and everything installed fits."""
        return not self.problems and self.state not in {Condition.BROKEN, Condition.NO_TORCH}

    def data(self) -> dict[str, Any]:
        """Return the summary as data for JSON."""
        return {**asdict(self), "state": self.state.value, "problems": list(self.problems)}

    def lines(self) -> Iterator[str]:
        """Yield the lines for people: torch, flags, graft, plugin and problems."""
        state = self.state.value
        about = [f"Python {self.python}"] if self.python else []
        if self.torch is not None:
            commit = (self.torch.get("commit") or "unknown")[:12]
            where = f" in {self.torch['root']}" if "root" in self.torch else ""
            about.append(f"torch {self.torch.get('version')} (commit {commit}){where}")
        yield f"{paths.printable(self.place)}: {state}; {', '.join(about)}"
        if self.flags is not None:
            own = "" if self.simulator is None else f", {name_client(simulator=self.simulator)}"
            yield f"  {state} with {self.flags or 'no flags'}{own}"
        if self.graft is not None:
            tensors = "CPU and CUDA tensors" if self.graft["cuda"] else "CPU tensors"
            library, version = self.graft["library"], self.graft["torch"]["version"]
            yield f"  graft: {library}, for torch {version}, {tensors}"
        if self.plugin is not None:
            flags = self.plugin["flags"] or "no flags"
            library = name_client(simulator=self.plugin["simulator"])
            yield f"  plugin: torch_switchml with {flags}, {library}"
        for problem in self.problems:
            yield f"  does not fit: {problem}"


def summarize_python(python: str, environ: Mapping[str, str]) -> Summary:
    """Summarize the torch of an interpreter, which imports it.

    Raises:
        ToolError: the program cannot be started, or is not Python.
    """
    own = {name: value for name, value in environ.items() if name != "SWITCHML_REQUIRE"}
    found = probe_torch(python, own, headers=False)
    version = found.interpreter.version
    if found.is_missing:
        return Summary(python, Condition.NO_TORCH, version)
    report = found.patched.report or found.graft.report
    graft, unreadable = _read_graft(found.wanted_graft)
    torch = {"root": found.root, **(vars(found.torch) if found.torch else {})}
    return Summary(
        place=python,
        state=_state(found),
        python=version,
        torch={key: torch.get(key) for key in _TOLD},
        flags=report["flags"] if report else None,
        simulator=report["simulator"] if report else None,
        graft=graft,
        plugin=found.plugin.report,
        problems=_problems(found, unreadable),
    )


def summarize_wheel(wheel: str) -> Summary:
    """Summarize a wheel of torch, without installing it.

    Raises:
        TreeError: the file is not a wheel of torch.
        FileError: the file cannot be read.
    """
    with file_errors(), zips.reading(wheel, TreeError) as archive:
        if _VERSION not in archive.entries:
            raise TreeError(f"{paths.printable(wheel)}: no wheel of torch")
        torch = graft_hook.version_of(archive.read(_VERSION))
        state = Condition.PATCHED if _MODULE in archive.entries else Condition.STOCK
    flags = flags_of(torch["version"] or "") if state is Condition.PATCHED else None
    return Summary(wheel, state, torch=torch, flags=None if flags is None else " ".join(flags))


def _state(found: Installed) -> Condition:
    if found.torch is None:
        return Condition.BROKEN
    if found.patched.report:
        return Condition.PATCHED
    return Condition.GRAFTED if found.graft.report else Condition.STOCK


def _read_graft(library: str | None) -> tuple[Mapping[str, Any] | None, str]:
    """Return the identity of a graft, and the reason why it cannot be read, or empty."""
    if library is None:
        return None, ""
    try:
        return {**graft_hook.read(library), "library": library}, ""
    except graft_hook.Misfit as error:
        return None, f"the graft {library}: {error}"


def _problems(found: Installed, unreadable: str) -> tuple[str, ...]:
    """Return a line for each thing that is installed but does not fit."""
    if found.torch is None:
        problems = [found.problem]
    else:
        problems = [found.graft.problem or unreadable, found.patched.problem]
    if found.plugin.problem:
        problems.append(f"torch_switchml cannot be imported: {found.plugin.problem}")
    return tuple(filter(None, problems))
