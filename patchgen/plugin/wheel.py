"""A wheel from the files of a package (PyPA, "Binary distribution format")."""

from __future__ import annotations

import hashlib
import os
import zipfile
from typing import TYPE_CHECKING

from patchgen import __version__
from patchgen.errors import file_errors
from patchgen.system import records, wheel

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "torch_switchml"


def file_name(version: str, tag: str) -> str:
    """The name of the wheel of a version."""
    return f"{PACKAGE}-{version}-{tag}.whl"


def write(  # noqa: PLR0913  # what a wheel says of itself
    path: str,
    contents: Mapping[str, bytes],
    *,
    version: str,
    tag: str,
    requires: str,
    scratch: str,
) -> None:
    """Writes a wheel whose bytes follow from the arguments alone.

    Args:
        path: the wheel; replaced at once or not at all.
        contents: path in the wheel to content.
        version: of the package.
        tag: the interpreter, the ABI and the platform.
        requires: a requirement.
        scratch: an existing directory for what is not finished.

    Raises:
        FileError: the file system refused.
    """
    metadata = f"{PACKAGE}-{version}.dist-info"
    files = {
        **contents,
        f"{metadata}/METADATA": _metadata(version, requires),
        f"{metadata}/WHEEL": _wheel(tag),
    }
    record = f"{metadata}/RECORD"
    rows = [
        records.Row(name, records.encoded(hashlib.sha256(content).digest()), len(content))
        for name, content in files.items()
    ]
    unordered = os.path.join(scratch, os.path.basename(path))
    with file_errors(), zipfile.ZipFile(unordered, "w") as target:
        for name, content in files.items():
            target.writestr(name, content)
        target.writestr(record, records.written(rows, record))
    wheel.normalise(unordered, path, 0)


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
