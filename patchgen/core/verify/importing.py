"""Checks the import of torch, and the variants of SwitchML in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from patchgen.core import meanings
from patchgen.core.patch.version import flags_of
from patchgen.core.torch import PLUGIN, Installed, Torch, name_client, probe_torch
from patchgen.core.verify import exits, libraries
from patchgen.core.verify import expected as expecting
from patchgen.core.verify.expected import Expected
from patchgen.core.verify.subject import Subject, make_environ
from patchgen.system.checks import Check
from patchgen.system.interpreter import NoInterpreter

_NOTHING = (
    "no: there is no patch, graft or plugin; for PyTorch 1.13 and newer make one with: "
    "switchml-patch plugin build"
)
_LONGEST = 300  # characters of an error


@dataclass(frozen=True)
class Imported:
    """Checks of an import, and what to verify with ranks."""

    checks: list[Check]
    variants: Mapping[str, bool] = field(default_factory=dict)
    """Variants of SwitchML; True where the client library is the simulator."""
    cause: str = ""
    """Known cause of failures at the exit of a rank that has trained."""


def check(subject: Subject, expected: Expected | None) -> Imported:
    """Import torch with every symbol bound, and check what it reports.

    Python binds all symbols of an extension module when it loads it, and LD_BIND_NOW=1 extends that
    to the module's libraries. So a successful import leaves no symbol undefined.

    Raises:
        ToolError: ldd cannot be started.
    """
    environ = make_environ(subject, {"LD_BIND_NOW": "1"})
    try:
        installed = probe_torch(subject.interpreter, environ, headers=False, limit=subject.limit)
    except NoInterpreter as error:
        return Imported([Check("torch imports", (str(error),))])
    root = installed.root
    if root is None:
        advice = "has no torch; install one, or give another interpreter"
        return Imported([Check("torch imports", (f"{subject.interpreter} {advice}",))])
    if subject.unpacked is not None and not _within(root, subject.unpacked):
        problem = f"{root} is imported instead of the wheel's: give another interpreter"
        return Imported([Check("torch imports", (problem,))])
    linked = libraries.check(subject, root)
    torch = installed.torch
    if torch is None:
        problem = f"{root}: {_shorten(installed.problem)}"
        return Imported([Check("torch imports", (problem,)), linked])
    where = f"{torch.version} in {root}, Python {torch.python_version}"
    checks = [Check("torch imports", (), where), linked]
    reports = installed.reports
    if expected is not None or subject.unpacked is not None:
        reports.pop(PLUGIN, None)  # only the torch itself is to be verified
        plugin = []
    else:
        plugin = [*_check_plugin(installed)]
    checks += [*plugin, *_check_patch(subject, installed, torch, expected, alone=not plugin)]
    variants = {variant: report["simulator"] for variant, report in reports.items()}
    return Imported(checks, variants, exits.cause(torch))


def _check_plugin(installed: Installed) -> Iterator[Check]:
    plugin = installed.plugin
    if plugin.report:
        yield Check("plugin", (), _describe(plugin.report))
    elif plugin.problem:
        yield Check("plugin", (f"torch_switchml: {_shorten(plugin.problem)}",))


def _check_patch(
    subject: Subject, installed: Installed, torch: Torch, expected: Expected | None, *, alone: bool
) -> Iterator[Check]:
    """Check a patch or a graft; without a plugin (`alone`) there must be one."""
    report = installed.patched.report or installed.graft.report
    if report is None:
        problem = installed.patched.problem or installed.graft.problem
        if alone or problem:
            yield Check(
                "patched", (_shorten(problem) if problem else _explain_unpatched(installed, torch),)
            )
        return
    yield Check("patched", (), _describe(report))
    yield _check_symbols(subject, installed.library or "")
    wanted = expected or Expected(None, flags_of(expecting.normalize_version(torch.version)))
    if (wanted.version, wanted.flags) != (None, None):
        problems = expecting.problems(wanted, torch.version, report["flags"])
        flags = expecting.describe_flags(report["flags"].split())
        found = f"{wanted.version or torch.version}, {flags}"
        yield Check("version and flags as expected", problems, found)


def _describe(report: Mapping[str, Any]) -> str:
    library = name_client(simulator=report["simulator"])
    return f"{expecting.describe_flags(report['flags'].split())}, {library}"


def _shorten(problem: str) -> str:
    """Return the last line of a problem, with advice."""
    error = problem.splitlines()[-1][:_LONGEST]
    hint = meanings.find("import", problem)
    return f"{error}; {hint}" if hint else error


def _explain_unpatched(installed: Installed, torch: Torch) -> str:
    """Return why this torch has no SwitchML."""
    if not torch.gloo:
        return "this torch has no Gloo process group; build with USE_DISTRIBUTED=1 and USE_GLOO=1"
    if not installed.has_module:
        return _NOTHING
    return (
        "no: torch.distributed.switchml is there, but no library has switchml_delegate_report: "
        "what was compiled is not the patched source; build again"
    )


def _check_symbols(subject: Subject, library: str) -> Check:
    name = f"switchml_delegate_report is in {os.path.basename(library)}"
    if subject.unpacked is not None and not _within(library, subject.unpacked):
        return Check("symbols", (f"switchml_delegate_report is not the wheel's, but of {library}",))
    return Check("symbols", (), f"{name}, and none is undefined")


def _within(path: str, directory: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(directory) + os.sep)
