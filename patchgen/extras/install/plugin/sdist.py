"""Source archive of the plugin, which pip compiles for the torch that it finds.

The archive carries this package, and no template: what follows from the flags is rendered in it. So
its build needs no library of Python, and nothing from a package index.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping

import patchgen
from patchgen.core.patch import render
from patchgen.core.patch.version import local_version
from patchgen.errors import file_errors
from patchgen.extras.install.plugin import project
from patchgen.extras.install.plugin.wheel import METADATA, PACKAGE
from patchgen.options import Options
from patchgen.system import files, outputs

FLAGS = "flags.json"
"""File with the flags of the client library, by the root of the archive."""

_NOT_CARRIED = (".pyc", ".toml", ".j2")
_EPOCH = 315532800  # 1980, the time of the wheels' entries
_METADATA = METADATA + "Requires-Python: >=3.9\n"


def write(options: Options, directory: str) -> str:
    """Writes the archive for the flags of a client library.

    Its bytes follow from the flags and the version of this package.

    Args:
        options: the flags; homes are named when the wheel is built.
        directory: where the archive goes; made when it is not there.

    Returns:
        The path of the archive.

    Raises:
        FileError: the directory cannot be written.
    """
    version = f"{patchgen.__version__}+{local_version(options)}"
    stem = f"{PACKAGE}-{version}"
    path = os.path.join(directory, f"{stem}.tar.gz")
    contents = {
        "PKG-INFO": _METADATA.format(version=version).encode(),
        FLAGS: (json.dumps({"flags": list(options.flags)}) + "\n").encode(),
        **dict(_carry(os.path.dirname(patchgen.__file__))),
    }
    for name, text in project.share(options).items():
        contents[f"patchgen/templates/patch/{name}"] = text.encode()
    for name in ("pyproject.toml", "torch_switchml_build.py"):
        contents[name] = render.text(f"plugin/{name}").encode()
    content = _pack({f"{stem}/{name}": content for name, content in contents.items()})
    with outputs.directory(directory), files.replacing(path) as file:
        file.write(content)
    return path


def _carry(package: str) -> Iterator[tuple[str, bytes]]:
    """Files of the package that a build reads, with its templates: path in the archive, content."""
    for place, directories, names in os.walk(package, followlinks=True):
        directories[:] = [name for name in directories if name != "__pycache__"]
        for name in names:
            if not name.endswith(_NOT_CARRIED) and name[0] != ".":
                path = os.path.join(place, name)
                with file_errors(), open(path, "rb") as file:
                    yield f"patchgen/{os.path.relpath(path, package)}", file.read()


def _pack(contents: Mapping[str, bytes]) -> bytes:
    """A compressed tar archive whose bytes follow from the contents and zlib alone."""
    out = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=_EPOCH) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(contents):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(contents[name]), _EPOCH
            archive.addfile(member, io.BytesIO(contents[name]))
    return out.getvalue()
