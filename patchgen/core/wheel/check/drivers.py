"""Row about the driver of the card, without which DPDK finds none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.core.library import archive
from patchgen.core.wheel.check.site import reason
from patchgen.options import FLAGS
from patchgen.system.checks import Check
from patchgen.system.paths import describe, native

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.core.wheel.check.facts import Facts
    from patchgen.options import Options


def check(facts: Facts) -> Iterator[Check]:
    """Checks what a build can do without, and a training cannot."""
    if facts.options.grpc and not facts.simulator:
        driver = check_driver(facts.options)
        if driver:
            yield driver


def check_driver(options: Options) -> Check | None:
    """Checks that DPDK can drive the card; None for a shared DPDK, which does not tell."""
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
