"""Rows about the homes: the client library, DPDK and gRPC."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

from patchgen.core.library import archive, homes
from patchgen.core.wheel.check.advice import reason
from patchgen.core.wheel.check.configure import Configuration
from patchgen.core.wheel.check.facts import Facts
from patchgen.options import FLAGS, Options
from patchgen.system import paths
from patchgen.system.checks import Check
from patchgen.system.paths import describe, native


def check_client(facts: Facts) -> Iterator[Check]:
    """Check SWITCHML_HOME, and whether the flags match its archive."""
    client, home = facts.client, describe(native(facts.request.options.switchml_home))
    yield Check("SWITCHML_HOME", client.problems, home)
    if client.archive:
        wrong = facts.configuration.archive if facts.configuration else ()
        yield Check("client library", tuple(map(paths.printable, wrong)), client.archive.about)


def check_dependencies(facts: Facts) -> Iterator[Check]:
    """Check DPDK and gRPC: as SWITCHML_HOME lists them, else in their homes."""
    options = facts.request.options
    if facts.simulator:
        return
    links = read_links(options)
    if links:
        yield links
        return
    if "dpdk_home" in options.homes:
        yield _check_dpdk(options)
    if options.grpc:
        yield _check_grpc(options, facts.configuration)


def check_driver(facts: Facts) -> Iterator[Check]:
    """Check that DPDK has a driver for the card; needed only for training."""
    options = facts.request.options
    driver = find_driver(options) if options.grpc and not facts.simulator else None
    if driver:
        yield driver


def read_links(options: Options) -> Check | None:
    """Return the row about libraries that SWITCHML_HOME lists; None without a list."""
    try:
        found = archive.read_links(options.switchml_home)
    except OSError as error:
        about = f"{describe(native(options.switchml_home))}/{homes.MODULE}: {reason(error)}"
        return Check("DPDK and gRPC", (f"{about}; it has to be a file that can be read",))
    return (
        Check("DPDK and gRPC", (), ", ".join(found) or "not needed") if found is not None else None
    )


def _check_dpdk(options: Options) -> Check:
    home = native(options.dpdk_home)
    wrong = _missing(options, "DPDK_HOME")
    if wrong:
        advice = "build DPDK there, or name another place with --dpdk-home"
        return Check("DPDK_HOME", (*wrong, advice), describe(home))
    names = [name for name in ("libdpdk.so", "libdpdk.a") if os.path.isfile(f"{home}/lib/{name}")]
    return Check("DPDK_HOME", (), ", ".join([describe(home), *names[:1]]))


def _check_grpc(options: Options, configuration: Configuration | None) -> Check:
    home = native(options.grpc_home)
    wrong = _missing(options, "GRPC_HOME") or (list(configuration.modules) if configuration else [])
    if wrong:
        advice = "build gRPC there, or name another place with --grpc-home"
        return Check("GRPC_HOME", (*map(paths.printable, wrong), advice), describe(home))
    shared = all(
        glob.glob(f"{glob.escape(home)}/lib*/{name}.so*") for name in ("libgrpc++", "libprotobuf")
    )
    kind = "shared" if shared else "static, or shared elsewhere: then ldconfig has to know them"
    versions = configuration.versions.items() if configuration else ()
    about = [f"{name} {version}" for name, version in versions]
    return Check("GRPC_HOME", (), f"{describe(home)}: {', '.join([*about, kind])}")


def _missing(options: Options, variable: str) -> list[str]:
    """Return the missing paths of a home, a line each, as `generate` reports them."""
    return [one.problem for one in homes.find_missing(options) if one.variable == variable]


def find_driver(options: Options) -> Check | None:
    """Return the row about the card's driver; None for a shared DPDK, where it is unknown."""
    cards = [flag.field for flag in FLAGS if flag.cards and flag.name in options.flags]
    card = cards[0] if cards else None
    path = f"{native(options.dpdk_home)}/lib/libdpdk.a"
    if card is None or not os.path.isfile(path):
        return None
    name = f"DPDK's {card} driver (optional)"
    try:
        there = card in archive.read_drivers(options.dpdk_home)
    except OSError as error:
        return Check(
            name,
            (f"{describe(path)}: {reason(error)}; it has to be a file that can be read",),
            required=False,
        )
    advice = (
        f"{describe(path)} has none, so no card will be found; build DPDK with {card.upper()}=1"
    )
    return Check(name, () if there else (advice,), required=False)
