"""Installs the simulator: the client library's API over a TCP aggregator instead of a switch.

The result is a SWITCHML_HOME like any other: headers, archive and switchml.cfg.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen.core.library import config, homes, origin, settings
from patchgen.system import files, paths, statement
from patchgen.system.native import cache, cmake

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOGGER = logging.getLogger(__name__)
_SOURCE = Path(__file__).parent
NAME = "simulator"
"""Name of its source in a provenance."""
_COMPILED = (".cc", ".h", ".txt")


def digest_source() -> str:
    """Digest of the files that it is compiled from."""
    return cache.digest(str(_SOURCE), only=_COMPILED)


def install(  # noqa: PLR0913  # each is an option of the command
    prefix: Path,
    *,
    workers: int | None = None,
    controller_port: int = config.DEFAULT_PORT,
    prepostprocessor: str = settings.PREPOSTPROCESSORS[0],
    aggregator: str | None = None,
    debug: bool = False,
    cxxflags: str = "",
    environ: Mapping[str, str] | None = None,
) -> list[Path]:
    """Builds the simulator and installs it; the prefix is touched only once it is built.

    Args:
        prefix: where include, lib and switchml.cfg go.
        workers: num_workers, with ranks/RANK/switchml.cfg for each rank if there are several;
            without, one file serves any number of ranks.
        controller_port: TCP port of the aggregator.
        prepostprocessor: one of `settings.PREPOSTPROCESSORS`.
        aggregator: HOST:PORT of a process that is the switch instead of rank 0.
        debug: no optimization, and debug symbols.
        cxxflags: flags for the compiler instead of those in the environment's CXXFLAGS.
        environ: environment with the compiler and its flags, for the provenance; without, none is
            written.

    Returns:
        The installed files.

    Raises:
        OptionsError: `aggregator` is no such address.
        ToolError: a program or library is missing, or the build failed.
        FileError: the prefix cannot be written.
    """

    def text(rank: int | None) -> bytes:
        return config.compose_simulated(
            rank=rank,
            workers=workers,
            controller_port=controller_port,
            prepostprocessor=prepostprocessor,
            aggregator=aggregator,
        ).encode()

    shared = text(None)
    with files.scratch("simulator") as directory:
        archive = _build(Path(directory), environ, debug=debug, cxxflags=cxxflags)
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
            request={"debug": debug, "cxxflags": cxxflags},
            resolved={},
            materials=[statement.describe_file(NAME, digest_source())],
        )
        contents = {origin.NAME: described.content(), **contents}
    contents[config.NAME] = shared
    if workers is not None and workers > 1:
        for rank in range(workers):
            contents[f"ranks/{rank}/{config.NAME}"] = text(rank)

    _LOGGER.info("installing into %s", prefix)
    origin.install(paths.from_native(str(prefix)), contents)
    return [prefix / name for name in contents]


def _build(
    directory: Path, environ: Mapping[str, str] | None, *, debug: bool, cxxflags: str
) -> Path:
    """Configures and builds; returns the archive."""
    build_type = "Debug" if debug else "Release"
    options = [f"-DCMAKE_BUILD_TYPE={build_type}"]
    if cxxflags:  # without: CXXFLAGS of the environment
        options.append(f"-DCMAKE_CXX_FLAGS={cxxflags}")
    cmake.build_source(str(_SOURCE), str(directory), options, "the simulator", environ)
    return directory / homes.ARCHIVE
