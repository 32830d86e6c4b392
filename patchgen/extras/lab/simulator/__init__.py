"""Installs the simulator: the client library's API over a TCP aggregator instead of a switch.

The result is a SWITCHML_HOME like any other: headers, archive and switchml.cfg.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from patchgen.core.library import config, homes, origin
from patchgen.errors import OptionsError
from patchgen.options import Options
from patchgen.system import files, paths, statement
from patchgen.system.native import cache, cmake

_LOGGER = logging.getLogger(__name__)
_SOURCE = Path(__file__).parent
NAME = "simulator"
"""Name of its source in a provenance."""
_COMPILED = (".cc", ".h", ".txt")


def digest_source() -> str:
    """Digest of the files that it is compiled from."""
    return cache.digest(str(_SOURCE), only=_COMPILED)


def find_home(directory: str, environ: Mapping[str, str]) -> str:
    """Finds the simulator in a cache, or installs it there; returns its home.

    Args:
        directory: the directory of the cache.
        environ: environment with the compiler and its flags.

    Raises:
        ToolError: a program or library is missing, or the build failed.
        FileError: the cache cannot be written.
    """

    def make(home: str) -> None:
        _LOGGER.info("building the simulator")
        install(Path(home))

    inputs = [cache.digest(str(_SOURCE)), cache.describe_compiler(environ)]
    return paths.from_native(cache.get_or_make(directory, NAME, inputs, make).path)


def find_library(
    options: Options | None, cache_directory: str, environ: Mapping[str, str]
) -> Options:
    """Options for a client library: that of the user, else the simulator, from the cache.

    Raises:
        OptionsError: the library of the user is not complete.
        ToolError: the simulator could not be built.
        FileError: the cache cannot be written.
    """
    if options is None:
        home = find_home(cache_directory, environ)
        return Options((), switchml_home=home, grpc_home="", dpdk_home="")
    missing = [str(one) for one in homes.find_missing(options)]
    if missing:
        raise OptionsError("\n".join([*missing, "without the variables, it is the simulator"]))
    return options


def install(
    prefix: Path,
    *,
    aggregator: str | None = None,
    debug: bool = False,
    environ: Mapping[str, str] | None = None,
) -> list[Path]:
    """Builds the simulator and installs it; the prefix is touched only once it is built.

    Args:
        prefix: where include, lib and switchml.cfg go.
        aggregator: HOST:PORT of a process that is the switch instead of rank 0.
        debug: no optimization, and debug symbols.
        environ: environment with the compiler and its flags, for the provenance; without, none is
            written.

    Returns:
        The installed files.

    Raises:
        OptionsError: `aggregator` is no such address.
        ToolError: a program or library is missing, or the build failed.
        FileError: the prefix cannot be written.
    """
    text = config.compose_simulated(aggregator=aggregator)
    with files.scratch("simulator") as directory:
        archive = _build(Path(directory), environ, debug=debug)
        contents = {
            f"include/switchml/{header.name}": header.read_bytes()
            for header in sorted(_SOURCE.glob("include/switchml/*.h"))
        }
        contents[homes.ARCHIVE] = archive.read_bytes()
    if environ is not None:
        described = origin.describe(
            origin.SIMULATOR,
            contents,
            environ,
            request={"debug": debug},
            resolved={},
            materials=[statement.describe_file(NAME, digest_source())],
        )
        contents = {origin.NAME: described.content(), **contents}
    contents[config.NAME] = text.encode()
    _LOGGER.info("installing into %s", prefix)
    origin.install(paths.from_native(str(prefix)), contents)
    return [prefix / name for name in contents]


def _build(directory: Path, environ: Mapping[str, str] | None, *, debug: bool) -> Path:
    """Configures and builds; returns the archive."""
    build_type = "Debug" if debug else "Release"
    options = [f"-DCMAKE_BUILD_TYPE={build_type}"]
    cmake.build_source(str(_SOURCE), str(directory), options, "the simulator", environ)
    return directory / homes.ARCHIVE
