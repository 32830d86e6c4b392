"""Access of a rank to SwitchML, and the probe of a torch with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.core.torch import GRAFT, probe_torch
from patchgen.errors import ToolError, TreeError
from patchgen.extras.install import graft
from patchgen.system import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.core.torch import Installed, Report
    from patchgen.extras.train.job import Job

NO_GRAFT = {"SWITCHML_GRAFT": "0"}
"""Variables with which an installed graft is not loaded."""


@dataclass(frozen=True)
class Access:
    """Access of a rank to SwitchML: variables, and a graft to load."""

    title: str
    """Description in a few words."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables of a rank that differ from the job's."""
    graft: str | None = None
    """Path of a graft that is not installed."""

    def extend(self, environ: Mapping[str, str], directory: str) -> Mapping[str, str]:
        """Extends an environment to that of a rank.

        Args:
            environ: the rest of the environment.
            directory: an empty directory that stays as long as the ranks do.

        Raises:
            FileError: the directory cannot be written.
        """
        environ = {**environ, **self.environ}
        return environ if self.graft is None else graft.launching(self.graft, directory, environ)


def probe_access(job: Job, access: Access) -> Installed:
    """Probes the torch of a job in the environment of its ranks.

    Raises:
        ToolError: the interpreter is none, or cannot be started.
        FileError: the temporary directory cannot be written.
    """
    with files.scratch("try") as directory:
        environ = access.extend(job.environ, directory)
        return probe_torch(job.python, environ)


def probe_graft(job: Job, access: Access) -> Installed:
    """Probes the torch of a job with the graft that the user names. Imports torch once.

    Raises:
        TreeError: the graft cannot be read, or is not for this torch.
        ToolError: the interpreter has no torch with Gloo.
        FileError: the temporary directory cannot be written.
    """
    identity = graft.read(access.graft or "")
    installed = found = probe_access(job, access)
    if installed.torch is None:  # which need not be the fault of the graft
        found = probe_access(job, Access("", NO_GRAFT))
    misfit = graft.misfit(identity, found.require_gloo().root)
    if misfit:
        raise TreeError(f"{access.title}: {misfit}")
    require_report(installed, GRAFT, access)
    return installed


def require_report(installed: Installed, way: str, access: Access) -> Report:
    """Returns the report of a way that has to be there.

    Raises:
        ToolError: the torch has no such report.
    """
    report = installed.reports.get(way)
    if report is not None:
        return report
    problem = installed.problem_of(way)
    if problem:
        raise ToolError(f"{access.title}: cannot be loaded: {problem}")
    raise ToolError(f"{access.title}: is not loaded by {installed.interpreter.name}")
