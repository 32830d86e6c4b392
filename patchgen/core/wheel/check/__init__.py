"""Checks of what a build needs: what is here, what is missing, and what to do.

Nothing is changed. No build fails for rows about what it can do without.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Callable

from patchgen.core.patch.limits import Limits
from patchgen.core.wheel.check import (
    blas,
    configure,
    drivers,
    environment,
    homes,
    link,
    programs,
    python,
    room,
)
from patchgen.core.wheel.check.accepted import ACCEPTABLE
from patchgen.core.wheel.check.facts import Facts
from patchgen.core.wheel.check.site import Site
from patchgen.core.wheel.check.tools import Tools
from patchgen.system import files, threads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchgen.core.patch.pins import Pin
    from patchgen.options import Options
    from patchgen.system.checks import Check

__all__ = ["Site", "default_work", "run"]

CHECKS: tuple[Callable[[Facts], Iterable[Check]], ...] = (
    homes.check_client,
    homes.check_dependencies,
    link.check_headers,
    link.check_libraries,
    blas.check,
    programs.check_compiler,
    programs.check_cmake,
    programs.check_ninja,
    programs.check_git,
    programs.check_nvcc,
    python.check_interpreter,
    python.check_tool,
    environment.check,
    room.check,
    drivers.check,
)
"""Checks in the order of their rows; each is about one thing, and all run at the same time."""


def default_work(pin: Pin) -> str:
    """Directory that a build is made in by default: a fixed path, for equal wheels."""
    return f"/var/tmp/switchml-patch/{pin.version}"  # noqa: S108  # survives a reboot; not secret


def run(options: Options, pin: Pin, site: Site) -> list[Check]:
    """Checks everything that a build needs.

    Args:
        options: the flags and homes.
        pin: what is to be built.
        site: where, and with what.

    Raises:
        FileError: there is no room for a scratch directory.
    """
    limits = Limits(f"PyTorch {pin.version}", pin.recipe.limits)
    tools = Tools(site, limits, None if site.python else environment.look(site))
    with (
        files.scratch("check") as directory,
        ThreadPoolExecutor(len(CHECKS) + 1) as pool,
        contextlib.ExitStack() as ends,
    ):
        ends.callback(tools.stop)  # before the pool waits for its threads: Ctrl-C ends all of them
        configured = pool.submit(configure.run, options, pin, tools, directory)
        facts = Facts(options, pin, site, tools, homes.look(options), configured)
        running = [pool.submit(lambda check: [*check(facts)], check) for check in CHECKS]
        for ended in threads.as_completed(running):
            ended.result()
        rows = [row for check in running for row in check.result()]
    return [_accept(row, site) for row in rows]


def _accept(row: Check, site: Site) -> Check:
    """A row that does not count where the user accepts its problem."""
    for name in site.accepted:
        if row.name == ACCEPTABLE[name] and not row.ok:
            found = ", ".join(filter(None, [row.found, f"accepted by --accept {name}"]))
            return replace(row, found=found, required=False)
    return row
