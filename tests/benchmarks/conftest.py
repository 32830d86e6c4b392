"""The torch, the graft and the launcher of the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "integration" / "ranks"))

from fixtures import graft, home, launch, patched, source, torch_python  # noqa: F401
