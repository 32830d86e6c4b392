"""A wheel from the files of a package (PyPA, "Binary distribution format")."""

from __future__ import annotations

import io
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


def file_name(version: str, tag: str) -> str:
    """The name of the wheel of a version."""
    return f"{PACKAGE}-{version}-{tag}.whl"


def entry_points(version: str, group: str | None) -> dict[str, bytes]:
    """The file by which torch finds the backend: path in the wheel to content.

    Args:
        version: of the package.
        group: of entry points, or None where torch looks at none.
    """
    if group is None:
        return {}
    text = f"[{group}]\nswitchml = {BACKEND}:register\n"
    return {f"{_metadata_directory(version)}/entry_points.txt": text.encode()}


def write(
    path: str, contents: Mapping[str, bytes], *, version: str, tag: str, requires: str
) -> None:
    """Writes a wheel whose bytes follow from the arguments and zlib alone.

    Args:
        path: the wheel; replaced at once or not at all.
        contents: path in the wheel to content.
        version: of the package.
        tag: the interpreter, the ABI and the platform.
        requires: a requirement.

    Raises:
        FileError: the file system refused.
    """
    metadata = _metadata_directory(version)
    files = {
        **contents,
        f"{metadata}/METADATA": _metadata(version, requires),
        f"{metadata}/WHEEL": _wheel(tag),
    }
    members = {
        name: wheel.Member(
            len(content), executable=False, copy=partial(wheel.copied, name, io.BytesIO(content))
        )
        for name, content in files.items()
    }
    wheel.write(path, f"{metadata}/RECORD", members, epoch=0)


def _metadata_directory(version: str) -> str:
    return f"{PACKAGE}-{version}.dist-info"


def _metadata(version: str, requires: str) -> bytes:
    return f"""\
Metadata-Version: 2.1
Name: {DISTRIBUTION}
Version: {version}
Summary: The backend "switchml" of torch.distributed: Gloo, with SwitchML in front of its allreduce
License: Apache-2.0
Requires-Dist: {requires}
""".encode()


def _wheel(tag: str) -> bytes:
    return f"""\
Wheel-Version: 1.0
Generator: switchml-patch {__version__}
Root-Is-Purelib: false
Tag: {tag}
""".encode()
