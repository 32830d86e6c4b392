"""Source archive of the plugin, which pip compiles for the torch that it finds.

The archive carries this package and the libraries that it imports for a build, so that its backend
compiles as `plugin build` does, and needs nothing from a package index.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

import patchgen
from patchgen.core.patch import render
from patchgen.core.patch.version import local_version
from patchgen.errors import ToolError, file_errors
from patchgen.extras.install.plugin.wheel import DISTRIBUTION, PACKAGE, SUMMARY
from patchgen.system import files, outputs
from patchgen.templates import DIRECTORY as TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.options import Options

FLAGS = "flags.json"
"""File with the flags of the client library, by the root of the archive."""

_TEMPLATES = "patchgen/templates"
LIBRARIES = ("installer", "jinja2", "markupsafe", "packaging")
"""Libraries that a build imports, by the names of package and distribution."""
_OLDEST = ">=3.9"  # Python that the package runs in
_NOT_CARRIED = (".pyc", ".toml")
_EPOCH = 315532800  # 1980, the time of the wheels' entries


def write(options: Options, directory: str) -> str:
    """Writes the archive for the flags of a client library.

    Its bytes follow from the flags, the version of this package and those of the libraries.

    Args:
        options: the flags; homes are named when the wheel is built.
        directory: where the archive goes; made when it is not there.

    Returns:
        The path of the archive.

    Raises:
        ToolError: a library is installed in a way that cannot be carried.
        FileError: the directory cannot be written.
    """
    version = f"{patchgen.__version__}+{local_version(options)}"
    stem = f"{PACKAGE}-{version}"
    path = os.path.join(directory, f"{stem}.tar.gz")
    content = _archive({f"{stem}/{name}": text for name, text in _contents(options, version)})
    with outputs.directory(directory), files.replacing(path) as file:
        file.write(content)
    return path


def _contents(options: Options, version: str) -> Iterator[tuple[str, bytes]]:
    """Files of the archive: path and content."""
    yield "PKG-INFO", _metadata(version)
    yield FLAGS, (json.dumps({"flags": list(options.flags)}) + "\n").encode()
    for name in ("pyproject.toml", "torch_switchml_build.py"):
        yield name, render.text(f"sdist/{name}").encode()
    yield from _carried(_TEMPLATES, TEMPLATES)
    package = os.path.dirname(patchgen.__file__)
    for name, content in _carried("patchgen", package):
        if not name.startswith(f"{_TEMPLATES}/"):
            yield name, content
    for library in LIBRARIES:
        yield from _carried(f"vendor/{library}", _root(library), suffix=".py")
        yield from _terms(library)


def _carried(prefix: str, directory: str, suffix: str = "") -> Iterator[tuple[str, bytes]]:
    """Files under a directory that a build reads: path under the prefix, and content."""
    for place, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if name != "__pycache__"]
        for name in names:
            if name.endswith(suffix) and not name.endswith(_NOT_CARRIED) and name[0] != ".":
                path = os.path.join(place, name)
                with file_errors(), open(path, "rb") as file:
                    yield f"{prefix}/{os.path.relpath(path, directory)}", file.read()


def _root(library: str) -> str:
    """Directory of an importable package.

    Raises:
        ToolError: it has none, as in a zip archive.
    """
    found = importlib.util.find_spec(library)
    if found is None or found.origin is None or not os.path.isfile(found.origin):
        raise ToolError(f"{library} is not installed as files; install it by pip")
    return os.path.dirname(found.origin)


def _terms(library: str) -> Iterator[tuple[str, bytes]]:
    """Metadata and licences of a library: path in the archive and content."""
    installed = importlib.metadata.distribution(library)
    for file in installed.files or ():
        information, _, name = str(file).partition("/")
        if information.endswith(".dist-info") and (
            name == "METADATA" or os.path.basename(name).startswith(("LICENSE", "COPYING"))
        ):
            yield f"vendor/{file}", file.read_binary()


def _archive(contents: Mapping[str, bytes]) -> bytes:
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


def _metadata(version: str) -> bytes:
    return f"""\
Metadata-Version: 2.1
Name: {DISTRIBUTION}
Version: {version}
Summary: {SUMMARY}
License: Apache-2.0
Requires-Python: >={_oldest_python()}
""".encode()


def _oldest_python() -> str:
    """Oldest minor release of Python 3 that runs the package and all libraries, such as 3.9."""
    told = [importlib.metadata.metadata(library)["Requires-Python"] for library in LIBRARIES]
    wanted = SpecifierSet(",".join([_OLDEST, *filter(None, told)]))
    return next(f"3.{minor}" for minor in range(100) if wanted.contains(f"3.{minor}"))
