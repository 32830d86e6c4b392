"""Wheel of the plugin, whose bytes follow from its contents and zlib alone.

Format: PyPA, "Binary distribution format". No build backend writes it, since it is for another
interpreter than the one that runs this program, and that one may have no package but torch.
"""

from __future__ import annotations

import os
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
_METADATA = f"""\
Metadata-Version: 2.1
Name: {DISTRIBUTION}
Version: {{version}}
Summary: {SUMMARY}
License: Apache-2.0
Requires-Dist: torch=={{release}}
"""
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


def write(  # noqa: PLR0913  # each is a part of its name or its metadata
    directory: str,
    contents: Mapping[str, bytes],
    *,
    release: str,
    local: str,
    tag: str,
    group: str | None = None,
) -> str:
    """Writes a wheel; it is replaced at once or not at all.

    Args:
        directory: where it goes.
        contents: path in the wheel to content.
        release: version of the torch that it requires, which its own version begins with.
        local: local part of its version.
        tag: tags of interpreter, ABI and platform.
        group: group of entry points in which torch finds the backend; None where it looks at none.

    Returns:
        The path of the wheel.

    Raises:
        FileError: the file system refused.
    """
    version = f"{release}+{local}"
    metadata = {
        "METADATA": _METADATA.format(version=version, release=release),
        "WHEEL": _WHEEL.format(tag=tag),
    }
    if group is not None:
        metadata["entry_points.txt"] = _ENTRY_POINTS.format(group=group)
    information = f"{PACKAGE}-{version}.dist-info"
    whole = {
        **contents,
        **{f"{information}/{name}": text.encode() for name, text in metadata.items()},
    }
    members = {name: wheel.make_member(name, content) for name, content in whole.items()}
    path = os.path.join(directory, f"{PACKAGE}-{version}-{tag}.whl")
    wheel.write(path, f"{information}/RECORD", members, epoch=0)
    return path
