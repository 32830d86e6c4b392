"""Rows about the homes: the client library, DPDK and gRPC."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, NamedTuple

from patchgen.checks import Check
from patchgen.client import homes, library
from patchgen.system import paths
from patchgen.system.paths import native
from patchgen.wheel.check.site import reason, shown

if TYPE_CHECKING:
    from patchgen.client.library import Archive
    from patchgen.options import Options
    from patchgen.wheel.check.configure import Said

_CLIENT = (
    "make one with switchml-patch client build, name another place with --switchml-home, "
    "or take the simulator: switchml-patch simulator install -o DIR"
)


class Client(NamedTuple):
    """The client library: what it is, and whether its home has it."""

    archive: Archive | None
    """None where it cannot be used."""
    headers: bool
    check: Check


def client(options: Options) -> Client:
    """SWITCHML_HOME."""
    home = native(options.switchml_home)
    path, header = library.path(options.switchml_home), f"{home}/{library.HEADER}"
    wrong = []
    if not os.path.isfile(header):
        wrong.append(f"no {shown(header)}; {_CLIENT}")
    archive = None
    try:
        archive = library.read(options.switchml_home)
    except FileNotFoundError:
        wrong.append(f"no {shown(path)}" + ("" if wrong else f"; {_CLIENT}"))
    except OSError as error:
        wrong.append(f"{shown(path)}: {reason(error)}; it has to be a file that can be read")
    except library.ArchiveError as error:
        wrong.append(f"{shown(path)}: {error}; build the client library again")
    check = Check("SWITCHML_HOME", tuple(wrong), shown(home))
    return Client(archive, os.path.isfile(header), check)


def built(archive: Archive, said: Said | None) -> Check:
    """What the archive was built with, and whether the flags fit."""
    wrong = said.archive if said else ()
    return Check("client library", tuple(map(paths.printable, wrong)), archive.about)


def links(options: Options) -> Check | None:
    """Where DPDK and gRPC come from, by SWITCHML_HOME; None where it does not say."""
    try:
        found = library.links(options.switchml_home)
    except OSError as error:
        about = f"{shown(native(options.switchml_home))}/{library.MODULE}: {reason(error)}"
        return Check("DPDK and gRPC", (f"{about}; it has to be a file that can be read",))
    return (
        Check("DPDK and gRPC", (), ", ".join(found) or "not needed") if found is not None else None
    )


def dpdk(options: Options, said: Said | None) -> Check:
    """DPDK_HOME."""
    home = native(options.dpdk_home)
    wrong = _missing(options, "DPDK_HOME", said)
    if wrong:
        advice = "build DPDK there, or name another place with --dpdk-home"
        return Check("DPDK_HOME", (*wrong, advice), shown(home))
    names = [name for name in ("libdpdk.so", "libdpdk.a") if os.path.isfile(f"{home}/lib/{name}")]
    return Check("DPDK_HOME", (), ", ".join([shown(home), *names[:1]]))


def grpc(options: Options, said: Said | None) -> Check:
    """GRPC_HOME."""
    home = native(options.grpc_home)
    wrong = _missing(options, "GRPC_HOME", said) or (list(said.modules) if said else [])
    if wrong:
        advice = "build gRPC there, or name another place with --grpc-home"
        return Check("GRPC_HOME", (*map(paths.printable, wrong), advice), shown(home))
    shared = all(
        glob.glob(f"{glob.escape(home)}/lib*/{name}.so*") for name in ("libgrpc++", "libprotobuf")
    )
    kind = "shared" if shared else "static, or shared elsewhere: then ldconfig has to know them"
    versions = said.versions.items() if said else ()
    about = [f"{name} {version}" for name, version in versions]
    return Check("GRPC_HOME", (), f"{shown(home)}: {', '.join([*about, kind])}")


def driver(options: Options) -> Check | None:
    """Whether DPDK can drive the card; a shared DPDK does not say."""
    card = "mlx5" if options.mlx5 else "mlx4" if options.mlx4 else None
    path = f"{native(options.dpdk_home)}/lib/libdpdk.a"
    if card is None or not os.path.isfile(path):
        return None
    name = f"run: DPDK's {card} driver"
    try:
        there = card in library.drivers(options.dpdk_home)
    except OSError as error:
        return Check(
            name,
            (f"{shown(path)}: {reason(error)}; it has to be a file that can be read",),
            required=False,
        )
    advice = f"{shown(path)} has none, so no card will be found; build DPDK with {card.upper()}=1"
    return Check(name, () if there else (advice,), required=False)


def _missing(options: Options, variable: str, said: Said | None) -> list[str]:
    """What is not there, a line each: by switchml.cmake, else by what its users are warned of."""
    if said is not None:
        return [f"no {paths.printable(path)}" for path in said.missing.get(variable, ())]
    return [one.problem for one in homes.find_missing(options) if one.variable == variable]
