"""Whether torch imports, is patched, and is what was asked for."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.checks import Check
from patchgen.patch.version import flags_of
from patchgen.payload import probe
from patchgen.ranks import exits
from patchgen.ranks.report import client
from patchgen.ranks.verify import expected as expecting
from patchgen.ranks.verify import libraries
from patchgen.ranks.verify.expected import Expected
from patchgen.ranks.verify.target import environment
from patchgen.system import interpreter
from patchgen.system.interpreter import NoInterpreter

if TYPE_CHECKING:
    from patchgen.ranks.verify.target import Target
    from patchgen.system.interpreter import Interpreter, Torch

_LONGEST = 300  # characters of a message
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
    cause: str = ""
    """Why a rank that has trained may fail when it ends, where that is known."""


def check(target: Target, expected: Expected | None) -> Imported:
    """Imports torch with every symbol bound, and looks at what it says of itself.

    An extension module is bound whole when Python loads it; LD_BIND_NOW=1 asks the same for what
    it loads in turn. So an import that ends well leaves no symbol undefined, of any library, and
    no tool that reads symbol tables is needed.

    Raises:
        ToolError: ldd cannot be started.
    """
    environ = environment(target, {"LD_BIND_NOW": "1"})
    try:
        asked = interpreter.ask(
            target.interpreter, environ, torch=True, switchml=True, limit=target.limit
        )
    except NoInterpreter as error:
        return Imported([Check("torch imports", (str(error),))])
    root = asked.root
    if root is None:
        advice = "has no torch; install one, or give another interpreter"
        return Imported([Check("torch imports", (f"{target.interpreter} {advice}",))])
    if target.unpacked is not None and not _within(root, target.unpacked):
        problem = f"{root} is imported instead of the wheel's: give another interpreter"
        return Imported([Check("torch imports", (problem,))])
    linked = libraries.check(target, root)
    torch = asked.torch
    if torch is None:
        problem = f"{root}: {_why(asked.problems[probe.TORCH])}"
        return Imported([Check("torch imports", (problem,)), linked])
    where = f"{torch.version} in {root}, Python {asked.version}"
    checks = [Check("torch imports", (), where), linked]
    report = asked.found.get(probe.PATCH)
    if report is None:
        return Imported([*checks, Check("patched", (_unpatched(asked, torch),))])
    told = f"{expecting.told(report['flags'].split())}, {client(report)}"
    checks += [Check("patched", (), told), _symbols(target, asked.found.get(probe.LIBRARY) or "")]
    wanted = expected or Expected(None, flags_of(expecting.normal(torch.version)))
    if (wanted.version, wanted.flags) != (None, None):
        problems = expecting.problems(wanted, torch.version, report["flags"])
        told = f"{wanted.version or torch.version}, {expecting.told(report['flags'].split())}"
        checks.append(Check("version and flags as expected", problems, told))
    return Imported(checks, report["simulator"], exits.cause(torch))


def _why(problem: str) -> str:
    """Why a step failed, in one line with what to do."""
    error = problem.splitlines()[-1][:_LONGEST]
    hint = next((text for words, text in _HINTS if re.search(words, problem)), None)
    return f"{error}; {hint}" if hint else error


def _unpatched(asked: Interpreter, torch: Torch) -> str:
    """Why this torch is not a patched one."""
    if probe.PATCH in asked.problems:
        return _why(asked.problems[probe.PATCH])
    if not torch.gloo:
        return "this torch has no Gloo process group; build with USE_DISTRIBUTED=1 and USE_GLOO=1"
    if probe.PATCH not in asked.found:
        return "no: it has no torch.distributed.switchml; build one with: switchml-patch build"
    return (
        "no: torch.distributed.switchml is there, but no library has switchml_torch_report: "
        "what was compiled is not the patched source; build again"
    )


def _symbols(target: Target, library: str) -> Check:
    name = f"switchml_torch_report is in {os.path.basename(library)}"
    if target.unpacked is not None and not _within(library, target.unpacked):
        return Check("symbols", (f"switchml_torch_report is not the wheel's, but of {library}",))
    return Check("symbols", (), f"{name}, and none is undefined")


def _within(path: str, directory: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(directory) + os.sep)
