"""Files that configure will look for in the homes, so that missing ones are named early."""

from __future__ import annotations

import os
from typing import NamedTuple

from patchgen.options import Options
from patchgen.system import paths

ARCHIVE = "lib/libswitchml-client.a"
MODULE = "lib/pkgconfig/switchml-client.pc"
"""Module with what else a program links with; only `client build` writes it."""
HEADER = "include/switchml/context.h"


class Missing(NamedTuple):
    """A file that configure will look for in a home, where there is none."""

    variable: str
    """Variable of the home, such as `DPDK_HOME`."""
    paths: tuple[str, ...]
    """Places, any of which would do."""

    @property
    def problem(self) -> str:
        """Problem in words, without the variable."""
        return f"no {' or '.join(map(paths.printable, self.paths))}"

    def __str__(self) -> str:
        return f"{self.variable}: {self.problem}"


def _list_needed(options: Options) -> list[tuple[str, str, tuple[str, ...]]]:
    """Variable, home, and the files any of which will do."""
    switchml = ("SWITCHML_HOME", options.switchml_home)
    dpdk = ("DPDK_HOME", options.dpdk_home)
    grpc = ("GRPC_HOME", options.grpc_home)
    needed: list[tuple[str, str, tuple[str, ...]]] = [
        (*switchml, (HEADER,)),
        (*switchml, (ARCHIVE,)),
    ]
    if os.path.exists(paths.encode(os.path.join(options.switchml_home, MODULE))):
        return needed  # it says where the others are
    if "dpdk_home" in options.homes:
        needed += [(*dpdk, ("include",)), (*dpdk, ("lib/libdpdk.a", "lib/libdpdk.so"))]
    if options.grpc:
        needed += [(*grpc, (f"lib/pkgconfig/{name}.pc",)) for name in ("protobuf", "grpc++")]
    return needed


def stamp_homes(options: Options) -> list[object]:
    """Stamps of the files in the homes that a program is compiled and linked with."""
    from patchgen.system.native import cache  # for what is compiled

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
    """Finds out which files will be looked for and are missing."""
    found = []
    for variable, home, names in _list_needed(options):
        candidates = tuple(os.path.join(home, name) for name in names)
        if not any(os.path.exists(paths.encode(path)) for path in candidates):
            found.append(Missing(variable, candidates))
    return found
