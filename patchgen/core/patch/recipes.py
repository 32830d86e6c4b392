"""Recipes for building a pinned PyTorch: versions, variables, disk and memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

PATH_RULE = "PyTorch's build takes only letters, digits and / . , + @ - _ in its path"
"""Reason for refusing a directory whose name `takes` does not accept."""


class Recipe(NamedTuple):
    """What a release of PyTorch needs to be built; empty for an unknown one."""

    limits: Mapping[str, str] = {}
    """PEP 440 specifiers by program or package; an empty one allows any version."""
    variables: Mapping[str, str] = {}
    """Environment variables for setup.py, unless the user sets them."""
    disk: float = 0
    """GiB for the source, the objects and the wheel, without the environment."""
    memory: float = 0
    """GiB for each compiler process."""
    companions: Mapping[str, str] = {}
    """Versions of packages that were released together with it, such as torchvision."""


def takes(path: str) -> bool:
    """Return whether any release of PyTorch can be built under this path."""
    return re.fullmatch(r"[\w/.,+@-]+", path, re.ASCII) is not None
