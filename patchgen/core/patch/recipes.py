"""Recipes for building a pinned PyTorch: versions, variables, room."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

PATH_RULE = "PyTorch's build takes only letters, digits and / . , + @ - _ in its path"
"""Reason for refusing a directory, for people."""


class Recipe(NamedTuple):
    """Recipe of one PyTorch. The default is for one that nothing is known about."""

    limits: Mapping[str, str] = {}
    """Versions that it builds with, as PEP 440 has it, by program or package; "" is any."""
    variables: Mapping[str, str] = {}
    """Variables of its setup.py, where the user says nothing."""
    disk: float = 0
    """GiB for the source, the objects and the wheel; the environment comes on top."""
    memory: float = 0
    """GiB for each compiler that runs."""
    companions: Mapping[str, str] = {}
    """Packages of the same time, with their version."""


def takes(path: str) -> bool:
    """True where PyTorch of any release can be built in a directory of that name."""
    return re.fullmatch(r"[\w/.,+@-]+", path, re.ASCII) is not None
