"""Source archive of the plugin, which pip compiles for the torch that it finds.

The archive contains this package, and rendered files instead of templates. So its build needs no
other Python package, and no package index.
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
"""File with the flags of the client library, relative to the root of the archive."""

_NOT_CARRIED = (".pyc", ".toml", ".j2")
_EPOCH = 315532800  # 1980, as in wheels
_METADATA = METADATA + "Requires-Python: >=3.9\n"


def write(options: Options, directory: str) -> str:
    """Write the archive for the flags of a client library, and return its path.

    Its bytes depend only on the flags and the version of this package. Homes are chosen when the
    wheel is built.

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
    flags = f"patchgen/templates/patch/{render.FLAGS_FILE}"
    contents[flags] = project.render_flags(options).encode()
    for name in ("pyproject.toml", "torch_switchml_build.py"):
        contents[name] = render.text(f"plugin/{name}").encode()
    content = _pack({f"{stem}/{name}": content for name, content in contents.items()})
    with outputs.directory(directory), files.replacing(path) as file:
        file.write(content)
    return path


def _carry(package: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the package and its templates: path in the archive, and content."""
    for place, directories, names in os.walk(package, followlinks=True):
        directories[:] = [name for name in directories if name != "__pycache__"]
        for name in names:
            if not name.endswith(_NOT_CARRIED) and name[0] != ".":
                path = os.path.join(place, name)
                with file_errors(), open(path, "rb") as file:
                    yield f"patchgen/{os.path.relpath(path, package)}", file.read()


def _pack(contents: Mapping[str, bytes]) -> bytes:
    """Return a compressed tar archive whose bytes depend only on the contents and zlib."""
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
