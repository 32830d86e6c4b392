"""Files that CMake looks for in the homes, so that missing ones are reported early."""

from __future__ import annotations

import os
from typing import NamedTuple

from patchgen.options import Options
from patchgen.system import paths

ARCHIVE = "lib/libswitchml-client.a"
MODULE = "lib/pkgconfig/switchml-client.pc"
"""pkg-config module with further libraries to link; only `client build` writes it."""
HEADER = "include/switchml/context.h"
ADVICE = (
    "they are needed when PyTorch is built: install them there until then, or set {} to the "
    "directories that have them and repeat this command"
)
"""Advice about missing files, for the variables of their homes."""


LIBRARIES = ("boost_program_options", "glog")
"""Libraries of the system that every client library needs."""
GRPC_LIBRARIES = ("grpc++", "protobuf")


class Missing(NamedTuple):
    """A file that CMake will look for in a home and not find."""

    variable: str
    """Variable of the home, such as `DPDK_HOME`."""
    paths: tuple[str, ...]
    """Paths of which any would do."""

    @property
    def problem(self) -> str:
        """Problem without the name of the variable."""
        return f"no {' or '.join(map(paths.printable, self.paths))}"

    def __str__(self) -> str:
        return f"{self.variable}: {self.problem}"


def _list_needed(options: Options) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return variable, home and alternative files for each file that is needed."""
    switchml = ("SWITCHML_HOME", options.switchml_home)
    dpdk = ("DPDK_HOME", options.dpdk_home)
    grpc = ("GRPC_HOME", options.grpc_home)
    needed: list[tuple[str, str, tuple[str, ...]]] = [
        (*switchml, (HEADER,)),
        (*switchml, (ARCHIVE,)),
    ]
    if os.path.exists(paths.encode(os.path.join(options.switchml_home, MODULE))):
        return needed  # it lists the other libraries
    if "dpdk_home" in options.homes:
        needed += [(*dpdk, ("include",)), (*dpdk, ("lib/libdpdk.a", "lib/libdpdk.so"))]
    if options.grpc:
        needed += [(*grpc, (f"lib/pkgconfig/{name}.pc",)) for name in ("protobuf", "grpc++")]
    return needed


def list_libraries(options: Options) -> tuple[str, ...]:
    """Return the libraries of the system that a program with the client library links."""
    numa = ("numa",) if options.dpdk_home else ()
    return (*LIBRARIES, *options.libraries, *(GRPC_LIBRARIES if options.grpc else ()), *numa)


def stamp_homes(options: Options) -> list[object]:
    """Return stamps of the headers and libraries that a program is built with."""
    from patchgen.system.native import cache  # not needed by `generate`

    headers = paths.native(os.path.join(options.switchml_home, "include"))
    found: list[object] = [cache.digest(headers)]
    for home, names in (
        (options.switchml_home, (ARCHIVE, MODULE)),
        (options.dpdk_home, ("include", "lib", "lib/libdpdk.a", "lib/libdpdk.so")),
        (options.grpc_home, ("lib", "lib/pkgconfig/protobuf.pc", "lib/pkgconfig/grpc++.pc")),
    ):
        found += [cache.stamp(paths.native(os.path.join(home, name))) for name in names if home]
    return found


def find_missing(options: Options) -> list[Missing]:
    """Return the files that CMake will look for in vain."""
    found = []
    for variable, home, names in _list_needed(options):
        candidates = tuple(os.path.join(home, name) for name in names)
        if not any(os.path.exists(paths.encode(path)) for path in candidates):
            found.append(Missing(variable, candidates))
    return found
