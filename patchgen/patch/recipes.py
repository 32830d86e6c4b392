"""What building a pinned PyTorch needs: versions, variables, room."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATH = re.compile(r"[\w/.,+@-]+", re.ASCII)

PATH_RULE = "PyTorch's build takes only letters, digits and / . , + @ - _ in its path"
"""Why a directory is refused, for people."""


@dataclass(frozen=True)
class Recipe:
    """How one PyTorch is built. The default is for one that nothing is known about."""

    limits: Mapping[str, str] = field(default_factory=dict)
    """Versions that it builds with, as PEP 440 has it, by program or package; "" is any."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of its setup.py, where the user says nothing."""
    disk: float = 0
    """GiB for the source, the objects and the wheel; the environment comes on top."""
    memory: float = 0
    """GiB for each compiler that runs."""
    companions: Mapping[str, str] = field(default_factory=dict)
    """Packages of the same time, with their version."""


def takes(path: str) -> bool:
    """Whether PyTorch's build, of any release, can be made in a directory of that name."""
    return _PATH.fullmatch(path) is not None
