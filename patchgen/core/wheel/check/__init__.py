"""Checks of what a build needs: what is here, what is missing, and what to do.

Nothing is changed. No build fails for rows about what it can do without.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Callable

from patchgen.core.wheel.check import homes, link, programs, python, room
from patchgen.core.wheel.check.facts import find_facts
from patchgen.core.wheel.check.request import CheckRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchgen.core.patch.pins import Pin
    from patchgen.core.wheel.check.facts import Facts
    from patchgen.system.checks import Check

__all__ = ["ACCEPTABLE", "CRASH", "CheckRequest", "check_build", "default_work"]

CRASH = "crash-at-exit"
ACCEPTABLE = {
    "no-blas": "BLAS and LAPACK",
    CRASH: "Python's exit",
}
"""Rows that a build refuses, but goes on without, by what the user then accepts."""

CHECKS: tuple[Callable[[Facts], Iterable[Check]], ...] = (
    homes.check_client,
    homes.check_dependencies,
    link.check_headers,
    link.check_libraries,
    link.check_blas,
    programs.check_compiler,
    programs.check_cmake,
    programs.check_ninja,
    programs.check_git,
    programs.check_nvcc,
    python.check_interpreter,
    python.check_tool,
    room.check_environment,
    room.check_machine,
    homes.check_driver,
)
"""Checks in the order of their rows; each is about one thing."""


def default_work(pin: Pin) -> str:
    """Directory that a build is made in by default: a fixed path, for equal wheels."""
    return f"/var/tmp/switchml-patch/{pin.version}"  # noqa: S108  # survives a reboot; not secret


def check_build(request: CheckRequest) -> list[Check]:
    """Checks everything that a build needs.

    Raises:
        FileError: there is no room for a scratch directory.
    """
    facts = find_facts(request)
    return [_accept(row, request) for check in CHECKS for row in check(facts)]


def _accept(row: Check, request: CheckRequest) -> Check:
    """A row that does not count where the user accepts its problem."""
    for name in request.accepted:
        if row.name == ACCEPTABLE[name] and not row.ok:
            found = ", ".join(filter(None, [row.found, f"accepted by --accept {name}"]))
            return replace(row, found=found, required=False)
    return row
