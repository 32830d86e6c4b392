"""Wheel of the plugin, whose bytes follow from its contents and zlib alone.

Format: PyPA, "Binary distribution format". No build backend writes it, since it is for another
interpreter than the one that runs this program, and that one may have no package but torch.
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
"""The module that registers the backend."""
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
"""Metadata of wheel and source archive, up to what each requires."""
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
    """Metadata of a wheel."""

    release: str
    """Version of its torch without the local part, which its own version begins with."""
    local: str
    """Local part of its version."""
    tag: str
    """Interpreter, ABI and platform."""
    requirement: str
    """Requirement of its torch."""
    groups: Sequence[str] = ()
    """Groups of entry points in which torch finds the backend."""

    @property
    def stem(self) -> str:
        """Name and version, as files of the wheel have them."""
        return f"{PACKAGE}-{self.release}+{self.local}"

    @property
    def files(self) -> dict[str, bytes]:
        """Files of the metadata but RECORD: path in the wheel to content."""
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
    """Writes a wheel; it is replaced at once or not at all.

    Args:
        directory: where it goes.
        contents: path in the wheel to content, without the metadata.
        metadata: what the wheel says of itself.

    Returns:
        The path of the wheel.

    Raises:
        FileError: the file system refused.
    """
    whole = {**contents, **metadata.files}
    members = {name: wheel.make_member(name, content) for name, content in whole.items()}
    path = os.path.join(directory, f"{metadata.stem}-{metadata.tag}.whl")
    wheel.write(path, f"{metadata.stem}.dist-info/RECORD", members, epoch=0)
    return path
