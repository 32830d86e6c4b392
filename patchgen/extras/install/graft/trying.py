"""Loads a graft into its torch as a program would, and makes a process group there."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from patchgen.core.torch import IMPORT_LIMIT, Torch
from patchgen.core.verify.start import ALONE, RankJob, start_ranks
from patchgen.errors import ToolError
from patchgen.extras.install.graft.installing import place
from patchgen.extras.install.payload import graft_trial
from patchgen.system import files


def attempt(library: str, torch: Torch, environ: Mapping[str, str]) -> None:
    """Loads the graft, imports torch, and sums in a group of one rank that uses Gloo.

    Args:
        library: the graft.
        torch: that it was made for.
        environ: of the process that loads it.

    Raises:
        ToolError: torch does not take the graft, or not its process group.
    """
    with files.scratch("try") as directory:
        place(directory)
        own = {
            **{name: value for name, value in environ.items() if not name.startswith("GLOO_")},
            **ALONE,
            "PYTHONDONTWRITEBYTECODE": "1",
            "SWITCHML_DISABLE": "1",
            "SWITCHML_GRAFT": library,
            "SWITCHML_REQUIRE": "1",
        }
        command = [torch.python, "-", os.path.join(directory, "store")]
        with open(graft_trial.__file__, "rb") as file:
            program = file.read()
        job = RankJob(command, [own], [directory], [program], limit=IMPORT_LIMIT)
        (ended,) = start_ranks(job).runs
    if ended.how:
        why = "".join(ended.last_lines(1)) or ended.how
        raise ToolError(f"{torch.python} does not take the graft: {why}", reason=why)
    mark = graft_trial.MARK.encode("ascii")
    said = [line for line in ended.out.splitlines() if line.startswith(mark)]
    group, value = json.loads(said[-1][len(mark) :])
    if not group or value != [1.0, 1.0, 1.0]:
        raise ToolError(
            f"the torch in {torch.root} goes on using its own process group, though the graft is "
            "loaded: its libraries were linked so that nothing can take their place (-Bsymbolic)"
        )
