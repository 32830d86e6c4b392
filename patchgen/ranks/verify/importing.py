"""Whether torch imports, is patched, and is what was asked for."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.checks import Check
from patchgen.patch.version import flags_of
from patchgen.ranks.verify import expected as expecting
from patchgen.ranks.verify import libraries
from patchgen.ranks.verify.expected import Expected
from patchgen.ranks.verify.target import run

if TYPE_CHECKING:
    from patchgen.ranks.verify.target import Answer, Event, Target

_LONGEST = 300  # characters of a message
_STEPS = ("locate", "load", "patched")
_HINTS = (
    (r"undefined symbol: \S*(switchml|rte_|grpc|google|protobuf|ibv_|mlx)",
     "the client library was built with other flags than this torch; build with its flags"),
    (r"undefined symbol", "its libraries are not of one build; build again from a clean tree"),
    (r"failed to map segment", "programs cannot be mapped there; set TMPDIR to another directory"),
    (r"No module named", "install what is missing for this interpreter, or give another"),
    (r"cannot open shared object file", "see the libraries"),
)  # fmt: skip


@dataclass(frozen=True)
class Imported:
    """What came of it. `simulator` is None where the ranks need not be started."""

    checks: list[Check]
    simulator: bool | None = None


def check(target: Target, expected: Expected | None) -> Imported:
    """Imports torch with every symbol bound, and looks at what it says of itself.

    An extension module is bound whole when Python loads it; LD_BIND_NOW=1 asks the same for what
    it loads in turn. So an import that ends well leaves no symbol undefined, of any library, and
    no tool that reads symbol tables is needed.

    Raises:
        ToolError: the interpreter, or ldd, cannot be started.
    """
    (answer,) = run(target, "import", [{"steps": _STEPS}], [{"LD_BIND_NOW": "1"}])
    found = answer.events.get("locate", {})
    root = found.get("root")
    if root is None:
        return Imported([Check("torch imports", (_absent(target, answer),))])
    if target.unpacked is not None and not _within(root, target.unpacked):
        problem = f"{root} is imported instead of the wheel's: give another interpreter"
        return Imported([Check("torch imports", (problem,))])
    linked = libraries.check(target, root)
    loaded = answer.events.get("load")
    if loaded is None or "error" in loaded:
        problem = f"{root}: {_why(answer, loaded)}"
        return Imported([Check("torch imports", (problem,)), linked])
    where = f"{loaded['version']} in {root}, Python {found['python']}"
    checks = [Check("torch imports", (), where), linked]
    state = answer.events.get("patched")
    problem = _unpatched(answer, loaded, state)
    if state is None or problem:
        return Imported([*checks, Check("patched", (problem,))])
    report = state["report"]
    client = "the simulator" if report["simulator"] else "the real client library"
    told = f"{expecting.told(report['flags'].split())}, {client}"
    checks += [Check("patched", (), told), _symbols(target, state["library"])]
    wanted = expected or Expected(None, flags_of(expecting.normal(loaded["version"])))
    if wanted != Expected(None, None):
        problems = expecting.problems(wanted, loaded["version"], report["flags"])
        told = f"{wanted.version or loaded['version']}, {expecting.told(report['flags'].split())}"
        checks.append(Check("version and flags as expected", problems, told))
    return Imported(checks, report["simulator"])


def _absent(target: Target, answer: Answer) -> str:
    name = target.interpreter
    if "locate" in answer.events:
        return f"{name} has no torch; install one, or give another interpreter"
    last = " ".join([":", *answer.ended.last_lines(1)])[:_LONGEST] if answer.ended.err else ""
    how = answer.ended.how or "gave no answer"
    return f"{name} {how}{last}; is it a Python interpreter?"


def _why(answer: Answer, event: Event | None) -> str:
    """Why a step failed, in one line with what to do."""
    if event is None:
        last = answer.ended.last_lines(1)
        return ": ".join([answer.ended.how or "ended without a word", *last])[:_LONGEST]
    error = event["error"].splitlines()[-1][:_LONGEST]
    hint = next((text for words, text in _HINTS if re.search(words, event["error"])), None)
    return f"{error}; {hint}" if hint else error


def _unpatched(answer: Answer, loaded: Event, state: Event | None) -> str:
    """Why this torch is not a patched one; empty where it is."""
    if state is None or "error" in state:
        return _why(answer, state)
    if not loaded["gloo"]:
        return "this torch has no Gloo process group; build with USE_DISTRIBUTED=1 and USE_GLOO=1"
    if not state["module"]:
        return "no: it has no torch.distributed.switchml; build one with: switchml-patch build"
    if state["report"] is None:
        return (
            "no: torch.distributed.switchml is there, but no library has switchml_torch_report: "
            "what was compiled is not the patched source; build again"
        )
    return ""


def _symbols(target: Target, library: str) -> Check:
    name = f"switchml_torch_report is in {os.path.basename(library)}"
    if target.unpacked is not None and not _within(library, target.unpacked):
        return Check("symbols", (f"switchml_torch_report is not the wheel's, but of {library}",))
    return Check("symbols", (), f"{name}, and none is undefined")


def _within(path: str, directory: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(directory) + os.sep)
