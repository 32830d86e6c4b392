"""Rows about the homes: the client library, DPDK and gRPC."""

from __future__ import annotations

import glob
import os
import shlex
from typing import TYPE_CHECKING, NamedTuple

from patchgen.build.check.site import lines, reason, shown, which
from patchgen.checks import Check
from patchgen.client import homes
from patchgen.client import library as archives
from patchgen.errors import ToolError
from patchgen.system.paths import native

if TYPE_CHECKING:
    from patchgen.build.check.tools import Tools
    from patchgen.client.library import Archive
    from patchgen.options import Options

_PC = ("protobuf", "grpc++")
_CLIENT = (
    "build the client library there, name another place with --switchml-home, "
    "or take the simulator: switchml-patch simulator install DIR"
)


class Client(NamedTuple):
    """The client library: what it is, and the rows about it."""

    archive: Archive | None
    """None where it cannot be used."""
    headers: bool
    checks: list[Check]


def client(options: Options) -> Client:
    """SWITCHML_HOME, and whether its archive was built with these flags."""
    home = native(options.switchml_home)
    name, path = "SWITCHML_HOME", f"{home}/{archives.ARCHIVE}"
    header = f"{home}/{archives.HEADER}"
    wrong = []
    if not os.path.isfile(header):
        wrong.append(f"no {shown(header)}; {_CLIENT}")
    archive = None
    try:
        archive = archives.read(options.switchml_home)
    except FileNotFoundError:
        wrong.append(f"no {shown(path)}" + ("" if wrong else f"; {_CLIENT}"))
    except OSError as error:
        wrong.append(f"{shown(path)}: {reason(error)}; it has to be a file that can be read")
    except archives.ArchiveError as error:
        wrong.append(f"{shown(path)}: {error}; build the client library again")
    checks = [Check(name, tuple(wrong), shown(home))]
    if archive is not None:
        checks.append(Check("client library", differences(options, archive), archive.about))
    return Client(archive, os.path.isfile(header), checks)


def differences(options: Options, archive: Archive) -> tuple[str, ...]:
    """Where the flags are not those of the archive."""
    if archive.simulator:
        return ()
    wrong = []
    for flag, card in (("DPDK", " (and --mlx5 or --mlx4 for its card)"), ("RDMA", "")):
        option = flag.lower()
        asked, built = getattr(options, option), flag in archive.backends
        if built and not asked:
            wrong.append(f"it was built with {flag}=1: add --{option}{card}")
        if asked and not built:
            wrong.append(f"it was built without {flag}: build it with {flag}=1, or drop --{option}")
    return tuple(wrong)


def dpdk(options: Options) -> Check:
    """DPDK_HOME."""
    home = native(options.dpdk_home)
    wrong = _missing(options, "DPDK_HOME")
    advice = "build DPDK there, or name another place with --dpdk-home"
    if wrong:
        return Check("DPDK_HOME", (*wrong, advice), shown(home))
    names = [name for name in ("libdpdk.so", "libdpdk.a") if os.path.isfile(f"{home}/lib/{name}")]
    if not names or not all(os.path.getsize(f"{home}/lib/{name}") for name in names):
        return Check("DPDK_HOME", (f"{shown(home)}/lib: libdpdk is empty; {advice}",), shown(home))
    return Check("DPDK_HOME", (), f"{shown(home)}, {names[0]}")


def driver(options: Options) -> Check | None:
    """Whether DPDK can drive the card; a shared DPDK does not say."""
    card = "mlx5" if options.mlx5 else "mlx4" if options.mlx4 else None
    path = f"{native(options.dpdk_home)}/lib/libdpdk.a"
    if card is None or not os.path.isfile(path):
        return None
    name = f"run: DPDK's {card} driver"
    try:
        there = card in archives.drivers(options.dpdk_home)
    except OSError as error:
        return Check(
            name,
            (f"{shown(path)}: {reason(error)}; it has to be a file that can be read",),
            required=False,
        )
    advice = f"{shown(path)} has none, so no card will be found; build DPDK with {card.upper()}=1"
    return Check(name, () if there else (advice,), required=False)


def grpc(options: Options, tools: Tools) -> tuple[Check, list[str]]:
    """GRPC_HOME, and what pkg-config tells the linker."""
    home = native(options.grpc_home)
    advice = "build gRPC there, or name another place with --grpc-home"
    wrong = _missing(options, "GRPC_HOME")
    if wrong:
        return Check("GRPC_HOME", (*wrong, advice), shown(home)), []
    program = which("pkg-config", tools.environ)
    if program is None:
        problem = "no pkg-config on PATH; install pkg-config (Debian) or pkgconf-pkg-config (RHEL)"
        return Check("GRPC_HOME", (problem,), shown(home)), []
    other = tools.environ.get("PKG_CONFIG_PATH", "")
    where = f"{home}/lib/pkgconfig:{other}"

    def say(*options: str) -> str:
        return tools.ask([program, *options, *_PC], PKG_CONFIG_PATH=where)

    try:
        say("--print-errors", "--exists")
        said = shlex.split(say("--libs-only-L", "--libs-only-l"))
        versions = say("--modversion").split()
    except ToolError as error:
        return Check("GRPC_HOME", (*lines(error), advice), shown(home)), []
    shared = all(
        glob.glob(f"{glob.escape(home)}/lib*/{library}.so*")
        for library in ("libgrpc++", "libprotobuf")
    )
    kind = "shared" if shared else "static, or shared elsewhere: then ldconfig has to know them"
    about = ", ".join(f"{name} {version}" for name, version in zip(_PC, versions))
    return Check("GRPC_HOME", (), f"{shown(home)}: {about}, {kind}"), said


def _missing(options: Options, variable: str) -> list[str]:
    found = (line.partition(": ") for line in homes.missing(options))
    return [text for name, _, text in found if name == variable]
