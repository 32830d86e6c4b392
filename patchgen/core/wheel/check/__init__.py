"""Checks of what a build needs: what is here, what is missing, and what to do.

Nothing is changed. No build fails for rows about what it can do without.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Callable

from patchgen.core.wheel.check import homes, link, programs, python, room
from patchgen.core.wheel.check.facts import ACCEPTABLE, CRASH, Facts, find_facts
from patchgen.core.wheel.check.request import CheckRequest
from patchgen.system.checks import Check

__all__ = ["ACCEPTABLE", "CRASH", "CheckRequest", "check_build"]

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
    room.check_environment,
    room.check_machine,
    homes.check_driver,
)
"""Checks in the order of their rows; each is about one thing."""


def check_build(request: CheckRequest) -> list[Check]:
    """Checks everything that a build needs.

    Raises:
        FileError: there is no room for a scratch directory.
    """
    facts = find_facts(request)
    return [facts.accept(row) for check in CHECKS for row in check(facts)]
