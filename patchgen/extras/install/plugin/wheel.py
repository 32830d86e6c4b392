"""Wheel of the plugin, whose bytes depend only on its contents and zlib.

Follows PyPA's "Binary distribution format". No build backend is used, because the wheel is for
another interpreter, which may have no package but torch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen import __version__
from patchgen.system import wheel

PACKAGE = "torch_switchml"
DISTRIBUTION = PACKAGE.replace("_", "-")
BACKEND = "torch_switchml_backend"
"""Module that registers the backend."""
_SUMMARY = (
    'The backend "switchml" of torch.distributed: Gloo, with SwitchML in front of its allreduce'
)
METADATA = f"""\
Metadata-Version: 2.1
Name: {DISTRIBUTION}
Version: {{version}}
Summary: {_SUMMARY}
License: Apache-2.0
"""
"""Common metadata of wheel and source archive."""
_WHEEL = f"""\
Wheel-Version: 1.0
Generator: switchml-patch {__version__}
Root-Is-Purelib: false
Tag: {{tag}}
"""
_ENTRY_POINTS = f"""\
[{{group}}]
switchml = {BACKEND}:register

"""


@dataclass(frozen=True)
class Metadata:
    """Metadata of the plugin's wheel."""

    release: str
    """Version of the torch without its local part, which the plugin's version begins with."""
    local: str
    tag: str
    requirement: str
    groups: Sequence[str] = ()
    """Groups of entry points in which torch looks for backends."""

    @property
    def stem(self) -> str:
        """Name and version, as in file names of the wheel."""
        return f"{PACKAGE}-{self.release}+{self.local}"

    @property
    def files(self) -> dict[str, bytes]:
        """Metadata files except RECORD, by path in the wheel."""
        version = f"{self.release}+{self.local}"
        texts = {
            "METADATA": METADATA.format(version=version) + f"Requires-Dist: {self.requirement}\n",
            "WHEEL": _WHEEL.format(tag=self.tag),
        }
        if self.groups:
            texts["entry_points.txt"] = "".join(
                _ENTRY_POINTS.format(group=group) for group in self.groups
            )
        return {f"{self.stem}.dist-info/{name}": text.encode() for name, text in texts.items()}


def write(directory: str, contents: Mapping[str, bytes], metadata: Metadata) -> str:
    """Write a wheel of these files and the metadata atomically, and return its path.

    Raises:
        FileError: the wheel cannot be written.
    """
    whole = {**contents, **metadata.files}
    members = {name: wheel.make_member(name, content) for name, content in whole.items()}
    path = os.path.join(directory, f"{metadata.stem}-{metadata.tag}.whl")
    wheel.write(path, f"{metadata.stem}.dist-info/RECORD", members, epoch=0)
    return path
