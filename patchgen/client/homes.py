"""Files that configure will look for in the homes, so that missing ones are named early."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.client import library
from patchgen.system import paths

if TYPE_CHECKING:
    from patchgen.options import Options


def _needed(options: Options) -> list[tuple[str, str, tuple[str, ...]]]:
    """Variable, home, and the files any of which will do."""
    switchml = ("SWITCHML_HOME", options.switchml_home)
    dpdk = ("DPDK_HOME", options.dpdk_home)
    grpc = ("GRPC_HOME", options.grpc_home)
    needed: list[tuple[str, str, tuple[str, ...]]] = [
        (*switchml, (library.HEADER,)),
        (*switchml, (library.ARCHIVE,)),
    ]
    if os.path.exists(paths.encode(os.path.join(options.switchml_home, library.MODULE))):
        return needed  # it says where the others are
    if options.dpdk:
        needed += [(*dpdk, ("include",)), (*dpdk, ("lib/libdpdk.a", "lib/libdpdk.so"))]
    if options.grpc:
        needed += [(*grpc, (f"lib/pkgconfig/{name}.pc",)) for name in ("protobuf", "grpc++")]
    return needed


def missing(options: Options) -> list[str]:
    """Lines about files that will be looked for and are missing."""
    lines = []
    for variable, home, names in _needed(options):
        candidates = [os.path.join(home, name) for name in names]
        if not any(os.path.exists(paths.encode(path)) for path in candidates):
            lines.append(f"{variable}: no {' or '.join(map(paths.printable, candidates))}")
    return lines
