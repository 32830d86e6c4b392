"""Places outside of the package that list the variables."""

from __future__ import annotations

import re
from pathlib import Path

from patchgen.options import VARIABLES

LISTS = ("Makefile", "README.md", "ci/in-image")


def find_unlisted(repository: Path) -> dict[str, list[str]]:
    """Return the variables missing in a list, by the list's file."""
    words = {
        name: {*re.findall(r"\w+", (repository / name).read_text(encoding="utf-8"))}
        for name in LISTS
    }
    return {
        name: [variable.name for variable in VARIABLES if variable.name not in found]
        for name, found in words.items()
    }
