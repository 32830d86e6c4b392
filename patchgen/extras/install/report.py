"""Report of a summary: lines for people, plain data for scripts. Prints nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from patchgen.core.torch import name_client
from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.extras.install.summary import Summary


def data(summary: Summary) -> dict[str, Any]:
    """Data for scripts."""
    return {**asdict(summary), "state": summary.state.value, "problems": list(summary.problems)}


def lines(summary: Summary) -> Iterator[str]:
    """Lines for people: one for the torch, then one for each thing that is there."""
    state = summary.state.value
    about = [f"Python {summary.python}"] if summary.python else []
    if summary.torch is not None:
        commit = (summary.torch.get("commit") or "unknown")[:12]
        where = f" in {summary.torch['root']}" if "root" in summary.torch else ""
        about.append(f"torch {summary.torch.get('version')} (commit {commit}){where}")
    yield f"{paths.printable(summary.place)}: {state}; {', '.join(about)}"
    if summary.flags is not None:
        own = "" if summary.simulator is None else f", {name_client(simulator=summary.simulator)}"
        yield f"  {state} with {summary.flags or 'no flags'}{own}"
    if summary.graft is not None:
        tensors = "CPU and CUDA tensors" if summary.graft["cuda"] else "CPU tensors"
        library, version = summary.graft["library"], summary.graft["torch"]["version"]
        yield f"  graft: {library}, for torch {version}, {tensors}"
    if summary.plugin is not None:
        flags = summary.plugin["flags"] or "no flags"
        library = name_client(simulator=summary.plugin["simulator"])
        yield f"  plugin: torch_switchml with {flags}, {library}"
    for problem in summary.problems:
        yield f"  does not fit: {problem}"
