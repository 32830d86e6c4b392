"""Loads a graft into its torch as a program would, and makes a process group there."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from patchgen.errors import ToolError
from patchgen.graft.installing import place
from patchgen.system import files
from patchgen.system.process import run

if TYPE_CHECKING:
    from patchgen.system.interpreter import Torch

_LIMIT = 600.0  # seconds; the first import of a large torch reads gigabytes
_MARK = b"switchml-graft: "

# An installed hook, which may be of another version, makes way for this one.
_PROGRAM = """
import json, os, sys
sys.modules.pop("switchml_graft", None)
sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__ != "switchml_graft"]
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import switchml_graft
switchml_graft.activate()
import torch
import torch.distributed as dist
from torch.distributed import switchml
del os.environ["SWITCHML_REQUIRE"]
dist.init_process_group("gloo", store=dist.FileStore(sys.argv[1], 1), rank=0, world_size=1)
value = torch.ones(3)
dist.all_reduce(value)
print("\\nswitchml-graft: " + json.dumps([switchml.report()["group"], value.tolist()]))
sys.stdout.flush()
dist.destroy_process_group()
"""


def attempt(library: str, torch: Torch) -> None:
    """Loads the graft, imports torch, and sums in a group of one rank that uses Gloo.

    Args:
        library: the graft.
        torch: that it was made for.

    Raises:
        ToolError: torch does not take the graft, or not its process group.
    """
    with files.scratch("try") as directory:
        place(directory)
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GLOO_")},
            "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONDONTWRITEBYTECODE": "1",
            "SWITCHML_DISABLE": "1",
            "SWITCHML_GRAFT": library,
            "SWITCHML_REQUIRE": "1",
        }
        arguments = ["-c", _PROGRAM, os.path.join(directory, "store")]
        try:
            out = run([torch.python, *arguments], cwd=directory, env=environ, limit=_LIMIT)
        except ToolError as error:
            reason = str(error).splitlines()[-1]
            raise ToolError(f"{torch.python} does not take the graft: {reason}") from error
    said = [line for line in out.splitlines() if line.startswith(_MARK)]
    group, value = json.loads(said[-1][len(_MARK) :])
    if not group or value != [1.0, 1.0, 1.0]:
        raise ToolError(
            f"the torch in {torch.root} goes on using its own process group, though the graft is "
            "loaded: its libraries were linked so that nothing can take their place (-Bsymbolic)"
        )
