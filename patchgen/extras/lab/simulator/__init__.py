"""Installation of the simulator: the client library's API over a TCP aggregator, not a switch.

The result is a SWITCHML_HOME like any other: headers, archive and switchml.cfg.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from patchgen.core.library import config, homes, origin
from patchgen.core.library.settings import PREPOSTPROCESSORS
from patchgen.errors import OptionsError
from patchgen.extras.lab import HEADERS
from patchgen.options import Options
from patchgen.system import files, paths, statement
from patchgen.system.native import cache, cmake
from patchgen.system.ports import split_address

_LOGGER = logging.getLogger(__name__)
_SOURCE = Path(__file__).parent
NAME = "simulator"
"""Name of the simulator's source in a provenance."""
_COMPILED = (".cc", ".h", ".txt")


def digest_source() -> str:
    """Return a digest of the files that the simulator is compiled from."""
    return cache.digest(str(_SOURCE), HEADERS, only=_COMPILED)


def find_home(directory: str, environ: Mapping[str, str]) -> str:
    """Return the simulator's home in a cache, where it is installed if missing.

    Raises:
        ToolError: a program or library is missing, or the build failed.
        FileError: the cache cannot be written.
    """

    def make(home: str) -> None:
        _LOGGER.info("building the simulator")
        install(Path(home))

    inputs = [
        cache.digest(str(_SOURCE), HEADERS),
        cache.list_libraries(homes.LIBRARIES),
        cache.describe_compiler(environ),
    ]
    return paths.from_native(cache.get_or_make(directory, NAME, inputs, make).path)


def find_library(
    options: Options | None, cache_directory: str, environ: Mapping[str, str]
) -> Options:
    """Return the options of the user's client library, or of the simulator from the cache.

    Raises:
        OptionsError: the library of the user is incomplete.
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


def compose_simulated(
    *,
    rank: int | None = None,
    workers: int | None = None,
    controller_port: int = config.DEFAULT_PORT,
    prepostprocessor: str = PREPOSTPROCESSORS[0],
    aggregator: str | None = None,
) -> str:
    """Compose the text for the simulator; the real library accepts it without `aggregator`.

    Args:
        rank: number of the worker; None: each fills in its own.
        workers: number of workers; None: the size of the process group.
        controller_port: port of rank 0 on the loopback.
        prepostprocessor: one of `PREPOSTPROCESSORS`.
        aggregator: HOST:PORT of a switch process, instead of rank 0.

    Raises:
        OptionsError: `aggregator` is no such address.
    """
    numbers = {"general.rank": rank, "general.num_workers": workers}
    values = {
        **{name: str(number) for name, number in numbers.items() if number is not None},
        "general.prepostprocessor": prepostprocessor,
        "general.controller_port": str(controller_port),
        "general.timeout": "10",
    }
    if aggregator is not None:
        try:
            host, port = split_address(aggregator)
        except ValueError as error:
            raise OptionsError(f"the address of the aggregator: {error}") from None
        values["general.controller_ip"], values["general.controller_port"] = host, str(port)
        values["backend.simulator.external_aggregator"] = "true"
    return config.compose(values, ("general", "backend.dummy"))


def install(
    prefix: Path,
    *,
    aggregator: str | None = None,
    debug: bool = False,
    environ: Mapping[str, str] | None = None,
) -> list[Path]:
    """Build the simulator and install it. The prefix is not touched if the build fails.

    Args:
        prefix: directory for include, lib and switchml.cfg.
        aggregator: HOST:PORT of a process that sums instead of rank 0.
        debug: whether to compile without optimization and with symbols.
        environ: environment with the compiler and its flags; None writes no provenance.

    Raises:
        OptionsError: `aggregator` is not an address.
        ToolError: a program or library is missing, or the build failed.
        FileError: the prefix cannot be written.
    """
    text = compose_simulated(aggregator=aggregator)
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
    build_type = "Debug" if debug else "Release"
    options = [f"-DCMAKE_BUILD_TYPE={build_type}"]
    cmake.build_source(str(_SOURCE), str(directory), options, "the simulator", environ)
    return directory / homes.ARCHIVE
