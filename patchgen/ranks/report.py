"""What to tell of an installation: lines for people, plain data for scripts. Prints nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.ranks.installation import Installation


def data(found: Installation) -> dict[str, Any]:
    """An installation for scripts."""
    return {**asdict(found), "state": found.state.value, "problems": list(found.problems)}


def lines(found: Installation) -> Iterator[str]:
    """An installation for people: one line, then one for each thing that is there."""
    state = found.state.value
    about = [f"Python {found.python}"] if found.python else []
    if found.torch is not None:
        commit = (found.torch.get("commit") or "unknown")[:12]
        where = f" in {found.torch['root']}" if "root" in found.torch else ""
        about.append(f"torch {found.torch.get('version')} (commit {commit}){where}")
    yield f"{paths.printable(found.place)}: {state}; {', '.join(about)}"
    if found.flags is not None:
        told = "" if found.simulator is None else f", {client({'simulator': found.simulator})}"
        yield f"  {state} with {found.flags or 'no flags'}{told}"
    if found.graft is not None:
        tensors = "CPU and CUDA tensors" if found.graft["cuda"] else "CPU tensors"
        library, made = found.graft["library"], found.graft["torch"]["version"]
        yield f"  graft: {library}, for torch {made}, {tensors}"
    if found.plugin is not None:
        flags = found.plugin["flags"] or "no flags"
        yield f"  plugin: torch_switchml with {flags}, {client(found.plugin)}"
    for problem in found.problems:
        yield f"  does not fit: {problem}"


def client(report: Mapping[str, Any]) -> str:
    """Which client library a report is of."""
    return "the simulator" if report["simulator"] else "the real client library"
