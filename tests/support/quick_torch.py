"""A torch of a few lines, for how ranks are started, configured and ended; its groups sum nothing.

A real torch takes a second or two of each process that imports it. The tests here start dozens of
such processes, and kill most of them before they would sum. Sums of `run` are tested with a real
torch beside them.
"""

from __future__ import annotations

from pathlib import Path

from support import graft, programs

REPORT = """
def report():
    return {"simulator": True, "flags": "", "calls": 2, "bytes": 8, "group": "agreed", "reason": "",
            "failure": "", "fallbacks": {"dtype": 0, "group": 0}}
"""
"""Report module of a patched torch whose group has delegated two allreduces."""

_DISTRIBUTED = """
from torch.distributed.distributed_c10d import *
"""


def make(directory: Path, version: str = graft.VERSION) -> Path:
    """Make the package in a directory; return the directory for PYTHONPATH."""
    fake = graft.make(directory / "quick torch", version)
    distributed = fake.root / "distributed"
    (distributed / "__init__.py").write_text(_DISTRIBUTED)
    (distributed / "distributed_c10d.py").write_text(programs.read("quick_c10d"))
    return fake.site
