"""Compiles CMake projects, once for the same inputs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from patchgen.errors import file_errors
from patchgen.system import files
from patchgen.system.native import cache as caches

_BUILT = "built.json"


@dataclass(frozen=True)
class Project:
    """A CMake project with one product: generated files, or a directory."""

    kind: str
    """First word of its directory's name in the cache."""
    title: str
    """Name in messages."""
    product: str
    """Path of the product, in the build directory."""
    beside: tuple[str, ...] = ()
    """Names of other files that the build makes beside it, and the cache keeps there."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Generated files: contents by path."""
    source: str = ""
    """Directory of a project that is not generated."""
    shared: tuple[str, ...] = ()
    """Directories of headers that it shares with other projects."""
    suffixes: tuple[str, ...] = ("",)
    """Suffixes of its files in these directories."""
    options: tuple[str, ...] = ()
    """Options of cmake, for a directory."""
    libraries: tuple[str, ...] = ()
    """Names of the system's libraries that it links, as glog."""
    inputs: tuple[object, ...] = ()
    """Other inputs, as JSON: stamps of other libraries that it links."""

    @property
    def digest(self) -> str:
        """Hash of its files."""
        if self.source:
            return caches.digest(self.source, *self.shared, only=self.suffixes)
        return files.digest(
            {path: hashlib.sha256(content).hexdigest() for path, content in self.files.items()}
        )


@dataclass(frozen=True)
class Product:
    """A file in the cache."""

    path: str
    new: bool
    """Whether it was built just now."""

    @property
    def built(self) -> dict[str, Any]:
        """Toolchain of its build, and the variables that this read, for a provenance.

        Raises:
            FileError: the cache cannot be read.
        """
        path = os.path.join(os.path.dirname(self.path), _BUILT)
        with file_errors(), open(path, "rb") as file:
            return dict(json.load(file))


def get_or_build(
    project: Project,
    cache: str,
    environ: Mapping[str, str],
    examine: Callable[[str], None] = lambda _path: None,
) -> Product:
    """Return the product of a project from the cache, or build it.

    `examine` tests a new product, which gets into the cache unless that raises. `environ` has the
    compiler and its flags.

    Raises:
        ToolError: a program or library is missing, or the build failed.
        FileError: the cache cannot be written.
    """

    def build(directory: str) -> None:
        from patchgen.system.native import tools  # starts programs

        with _build(project, environ) as place:
            product = os.path.join(place, project.product)
            examine(product)
            built = {
                "toolchain": tools.describe_tools(environ),
                "variables": tools.read_variables(environ),
            }
            with file_errors():
                for name in (os.path.basename(product), *project.beside):
                    shutil.copy2(os.path.join(os.path.dirname(product), name), directory)
                files.write(os.path.join(directory, _BUILT), json.dumps(built).encode())

    compiler = caches.describe_compiler(environ)
    inputs = [
        project.digest, project.product, project.beside, project.options, project.inputs,
        caches.list_libraries(project.libraries), compiler, _BUILT,
    ]  # fmt: skip
    found = caches.get_or_make(cache, project.kind, inputs, build)
    return Product(os.path.join(found.path, os.path.basename(project.product)), found.new)


@contextlib.contextmanager
def _build(project: Project, environ: Mapping[str, str]) -> Iterator[str]:
    from patchgen.system.native import cmake  # imports what starts programs

    if not project.source:
        with cmake.build_project(project.files, project.title, environ) as place:
            yield place
        return
    with files.scratch(project.kind) as place:
        cmake.build_source(project.source, place, project.options, project.title, environ)
        yield place
