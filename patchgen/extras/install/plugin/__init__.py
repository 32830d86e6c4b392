"""The plugin: the backend "switchml" for an installed torch, which is not changed.

It is compiled from the delegate and a process group that wraps Gloo's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from patchgen.core.library import homes
from patchgen.core.patch import render
from patchgen.core.patch.version import local_version
from patchgen.core.torch import Torch
from patchgen.errors import file_errors
from patchgen.extras.install import provenance
from patchgen.extras.install.plugin import project, target, wheel
from patchgen.options import Options
from patchgen.system import files, interpreter, native, outputs, statement
from patchgen.system.native import Product, cmake
from patchgen.system.statement import Provenance
from patchgen.system.wheel import SBOM

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class PluginRequest:
    """Request for a plugin, which only its own torch can load."""

    options: Options
    torch: Torch
    cache: str
    environ: Mapping[str, str]
    """Environment with the compiler and its flags."""


@dataclass(frozen=True)
class Package:
    """Compiled plugin for a torch."""

    metadata: wheel.Metadata
    contents: Mapping[str, bytes]
    """Files of the package by path, without metadata."""
    product: Product

    @property
    def files(self) -> dict[str, bytes]:
        """Files of the installed package by path, with metadata."""
        return {**self.contents, **self.metadata.files}


def compile_package(request: PluginRequest) -> Package:
    """Compile the plugin for a torch, or take it from the cache.

    Raises:
        ToolError: the torch has no headers, or cmake or the compiler failed.
        FileError: the cache cannot be written.
    """
    options, torch = request.options, request.torch
    wanted = target.inspect(torch, request.environ)
    product = native.get_or_build(
        native.Project(
            "plugin-module", "the process group and the delegate", project.library(wanted),
            (render.LIBRARY,), project.sources(options, wanted),
            libraries=homes.list_libraries(options),
            inputs=(homes.stamp_homes(options), torch.stamps),
        ),
        request.cache, request.environ,
    )  # fmt: skip
    contents = project.modules(wanted)
    for name in (project.library(wanted), render.LIBRARY):
        with file_errors(), open(os.path.join(os.path.dirname(product.path), name), "rb") as file:
            contents[f"{wheel.PACKAGE}/{name}"] = file.read()
    metadata = wheel.Metadata(
        wanted.release, local_version(options), wanted.tag, wanted.requirement, wanted.entry_points
    )
    return Package(metadata, contents, product)


def provide(
    options: Options, torch: Torch, cache: str, environ: Mapping[str, str], directory: str
) -> tuple[dict[str, str], bool]:
    """Add the plugin, compiled or from the cache, to an environment with a compiler.

    `directory` is empty, and must be kept as long as the environment is used.

    Returns:
        The environment, and whether the plugin was compiled by this call.

    Raises:
        ToolError: the torch has no headers, or cmake or the compiler failed.
        FileError: the cache or the directory cannot be written.
    """
    package = compile_package(PluginRequest(options, torch, cache, environ))
    cmake.write_project(package.files, directory)
    search = interpreter.search_path(directory, environ)
    # An installed graft is not loaded, because it may use another client library.
    return {**environ, "SWITCHML_GRAFT": "0", "PYTHONPATH": search}, package.product.new


def build(request: PluginRequest, directory: str, *, sbom: bool = True) -> str:
    """Write the wheel `torch_switchml` for a torch, and its provenance; return its path.

    Without `sbom` it needs no other distribution, as a build by pip.

    Raises:
        ToolError: the torch has no headers, or cmake or the compiler failed.
        FileError: the directory or the cache cannot be written.
    """
    _LOGGER.info("torch %s in %s", request.torch.version, request.torch.root)
    package = compile_package(request)
    if not package.product.new:
        _LOGGER.info("taking the compiled module from the cache")
    _LOGGER.info("writing the wheel")
    with outputs.directory(directory):
        described = provenance.describe(
            provenance.PLUGIN, None, request.options, request.torch, package.product.built,
            request={"bundle": False},
        )  # fmt: skip
        contents = dict(package.contents)
        if sbom:
            name = f"{package.metadata.stem}.dist-info/{SBOM}"
            contents[name] = _compose_sbom(request, package, described)
        path = wheel.write(directory, contents, package.metadata)
        statement.write(path, replace(described, subjects=(files.measure(path),)))
    return path


def _compose_sbom(request: PluginRequest, package: Package, made: Provenance) -> bytes:
    from patchgen.core import sbom  # noqa: PLC0415  # pip's build of the plugin has no CycloneDX

    path = package.product.path
    beside = os.path.join(os.path.dirname(path), render.LIBRARY)
    libraries = sbom.find_libraries([path, beside], request.environ)
    version = package.metadata.stem.partition("-")[2]
    torch = sbom.find_torch(request.torch.root, request.environ)
    return sbom.compose(made, libraries, wheel.DISTRIBUTION, version, torch)
