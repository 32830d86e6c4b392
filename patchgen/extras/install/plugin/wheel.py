"""A wheel from the files of a package (PyPA, "Binary distribution format")."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from patchgen import __version__
from patchgen.system import wheel

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "torch_switchml"
DISTRIBUTION = PACKAGE.replace("_", "-")
BACKEND = "torch_switchml_backend"
"""The module that registers the backend."""
SUMMARY = (
    'The backend "switchml" of torch.distributed: Gloo, with SwitchML in front of its allreduce'
)


@dataclass(frozen=True)
class Metadata:
    """Metadata of a wheel."""

    version: str
    tag: str
    """Interpreter, ABI and platform."""
    requires: str
    entry_points: str | None = None
    """Group of entry points by which torch finds the backend; None where it looks at none."""

    @property
    def file_name(self) -> str:
        """Name of the wheel."""
        return f"{PACKAGE}-{self.version}-{self.tag}.whl"

    @property
    def directory(self) -> str:
        """Directory of the metadata in the wheel."""
        return f"{PACKAGE}-{self.version}.dist-info"

    @property
    def files(self) -> dict[str, bytes]:
        """Files of the metadata but RECORD: path in the wheel to content."""
        texts = {"METADATA": self._metadata, "WHEEL": self._wheel}
        if self.entry_points is not None:
            texts["entry_points.txt"] = f"[{self.entry_points}]\nswitchml = {BACKEND}:register\n"
        return {f"{self.directory}/{name}": text.encode() for name, text in texts.items()}

    @property
    def _metadata(self) -> str:
        return f"""\
Metadata-Version: 2.1
Name: {DISTRIBUTION}
Version: {self.version}
Summary: {SUMMARY}
License: Apache-2.0
Requires-Dist: {self.requires}
"""

    @property
    def _wheel(self) -> str:
        return f"""\
Wheel-Version: 1.0
Generator: switchml-patch {__version__}
Root-Is-Purelib: false
Tag: {self.tag}
"""


def write(path: str, contents: Mapping[str, bytes], metadata: Metadata) -> None:
    """Writes a wheel whose bytes follow from the arguments and zlib alone.

    Args:
        path: the wheel; replaced at once or not at all.
        contents: path in the wheel to content.
        metadata: what the wheel says of itself.

    Raises:
        FileError: the file system refused.
    """
    members = {
        name: wheel.Member(
            len(content),
            executable=False,
            copy=partial(wheel.copy_stream, name, io.BytesIO(content)),
        )
        for name, content in {**contents, **metadata.files}.items()
    }
    wheel.write(path, f"{metadata.directory}/RECORD", members, epoch=0)
