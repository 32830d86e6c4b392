"""A torch of a few lines, for how ranks are started, configured and ended; its groups sum nothing.

A real one takes a second or two of each process that imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import graft

if TYPE_CHECKING:
    from pathlib import Path

_C10D = """
import os

class ProcessGroupGloo:
    pass

def init_process_group(backend, init_method=None):
    global _backend
    _backend = backend

def get_rank():
    return int(os.environ["RANK"])

def get_world_size():
    return int(os.environ["WORLD_SIZE"])

def get_backend():
    return _backend

def barrier():
    assert _backend

def destroy_process_group():
    global _backend
    del _backend
"""
_DISTRIBUTED = """
from torch.distributed.distributed_c10d import *
"""


def make(directory: Path) -> Path:
    """Makes it below a directory; what is returned is to be on the path of a Python."""
    fake = graft.make(directory / "quick torch")
    distributed = fake.root / "distributed"
    (distributed / "__init__.py").write_text(_DISTRIBUTED)
    (distributed / "distributed_c10d.py").write_text(_C10D)
    return fake.site
