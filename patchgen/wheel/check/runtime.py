"""Rows about what a run needs: the card's driver, huge pages, and the switchml.cfg."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from patchgen.checks import Check
from patchgen.client import config, library
from patchgen.options import FLAGS
from patchgen.system import paths
from patchgen.system.paths import describe, native
from patchgen.wheel.check.site import reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.client.config import Config
    from patchgen.client.library import Archive
    from patchgen.options import Options
    from patchgen.wheel.check.facts import Facts
    from patchgen.wheel.check.site import Site

_CONFIG = "run: switchml.cfg"
_HUGEPAGES = "run: hugepages"
_RESERVE = "as root: echo 2048 > /proc/sys/vm/nr_hugepages"


def check(facts: Facts) -> Iterator[Check]:
    """Checks what a run needs on this machine; no build fails for it."""
    row, found = check_config(facts.site, facts.archive, os.uname().nodename)
    if facts.options.grpc and not facts.simulator:
        driver = check_driver(facts.options)
        if driver:
            yield driver
        yield check_hugepages(found if "DPDK" in facts.options.flags else None)
    yield row


def check_driver(options: Options) -> Check | None:
    """Checks that DPDK can drive the card; None for a shared DPDK, which does not tell."""
    cards = [flag.field for flag in FLAGS if flag.cards and flag.name in options.flags]
    card = cards[0] if cards else None
    path = f"{native(options.dpdk_home)}/lib/libdpdk.a"
    if card is None or not os.path.isfile(path):
        return None
    name = f"run: DPDK's {card} driver"
    try:
        there = card in library.read_drivers(options.dpdk_home)
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


def check_hugepages(config: Config | None, root: str = "/") -> Check:
    """Checks that pages are free, and that a hugetlbfs is mounted to get them from.

    Args:
        config: the configuration of a run; None where there is none that can be used.
        root: the directory of proc and sys.
    """
    if config is not None and config.without_hugepages:
        return Check(_HUGEPAGES, (), "none needed: switchml.cfg has --no-huge", required=False)
    directory = os.path.join(root, "sys/kernel/mm/hugepages")
    free: dict[int, int] = {}  # pages by kB
    try:
        for name in os.listdir(directory):
            size = int(name.removeprefix("hugepages-").removesuffix("kB"))
            with open(os.path.join(directory, name, "free_hugepages"), encoding="ascii") as file:
                free[size] = int(file.read())
        with open(os.path.join(root, "proc/mounts"), encoding="utf-8", errors="replace") as file:
            mounted = any(line.split()[2:3] == ["hugetlbfs"] for line in file)
    except (OSError, ValueError):
        return Check(_HUGEPAGES, (f"this kernel has none; {_RESERVE}",), required=False)
    found = ", ".join(f"{free[size]} of {size} kB" for size in sorted(free) if free[size])
    wrong = [] if found else [f"none is free; {_RESERVE}"]
    if not mounted:
        wrong.append("no hugetlbfs; as root: mount -t hugetlbfs none /dev/hugepages")
    return Check(_HUGEPAGES, tuple(wrong), f"{found} free" if found else "", required=False)


def check_config(
    site: Site, archive: Archive | None, host: str, etc: str = "/etc"
) -> tuple[Check, Config | None]:
    """Reads the switchml.cfg that a run here would read; the configuration where it can be used.

    Args:
        site: the directory and the environment that a run would be started in.
        archive: the client library; None where it cannot be used.
        host: the name of this machine.
        etc: the directory of the system's own configuration.
    """
    named = site.environ.get("SWITCHML_CONFIG")
    looked = config.list_places(named, host, site.cwd, etc)
    for path in looked:
        try:
            found = config.read(config.load(path))
            exposed = "" if named or path == looked[0] else _exposed(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            return _unusable(
                f"{describe(path)}: {reason(error)}; it has to be a file that can be read"
            )
        except ValueError as error:
            return _unusable(f"{describe(path)}: {paths.printable(str(error))}; mend it")
        if exposed:
            return _unusable(f"{describe(path)}: {exposed}; no rank takes it")
        rank, workers = (
            config.AUTO if number is None else number for number in (found.rank, found.workers)
        )
        about = f"{describe(path)}: rank {rank} of {workers}, backend {found.backend}"
        return Check(_CONFIG, found.doubts(archive), about, required=False), found
    tried = ", ".join(map(describe, looked))
    return _unusable(f"none of {tried}; write one, or allreduce stays with Gloo")


def _exposed(path: str) -> str:
    """Advice where others than this user and root could have written a file; else empty.

    The delegate has the same rule.
    """
    real = os.path.realpath(path)
    for one in (os.path.dirname(path), os.path.dirname(real), real):
        status = os.stat(one)
        if status.st_uid not in (os.geteuid(), 0):
            return (
                f"{describe(one)} belongs to user {status.st_uid}; name the file in SWITCHML_CONFIG"
            )
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return (
                f"{describe(one)} can be written by others; run `chmod go-w {describe(one)}`, "
                "or name the file in SWITCHML_CONFIG"
            )
    return ""


def _unusable(problem: str) -> tuple[Check, None]:
    return Check(_CONFIG, (problem,), required=False), None
