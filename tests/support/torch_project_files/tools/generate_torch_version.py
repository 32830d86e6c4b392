"""Writes torch/version.py from the environment, and tells the version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "Unknown"


def version() -> str:
    given = os.environ.get("PYTORCH_BUILD_VERSION")
    if given:
        number = int(os.environ["PYTORCH_BUILD_NUMBER"])
        return given + (f".post{number}" if number > 1 else "")
    return f"{(ROOT / 'version.txt').read_text().strip()}+git{commit()[:7]}"


if __name__ == "__main__":
    debug = sys.argv[1] == "--is_debug=1"
    (ROOT / "torch" / "version.py").write_text(
        f"__version__ = {version()!r}\ndebug = {debug}\ncuda = None\n"
        f"git_version = {commit()!r}\nhip = None\n"
    )
