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


def file_name(version: str, tag: str) -> str:
    """The name of the wheel of a version."""
    return f"{PACKAGE}-{version}-{tag}.whl"


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
    metadata = f"{PACKAGE}-{version}.dist-info"
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


def _metadata(version: str, requires: str) -> bytes:
    return f"""\
Metadata-Version: 2.1
Name: {PACKAGE.replace("_", "-")}
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
