"""Checks the requirements of a build: what is present, what is missing, and what to do.

Changes nothing. Optional rows never stop a build.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Callable

from patchgen.core.wheel.check import homes, link, programs, python, room
from patchgen.core.wheel.check.facts import ACCEPTABLE, CRASH, Facts, find_facts
from patchgen.core.wheel.request import BuildRequest
from patchgen.system.checks import Check
from patchgen.system.native import cmake_variables

__all__ = ["ACCEPTABLE", "CRASH", "check_build"]

CHECKS: tuple[Callable[[Facts], Iterable[Check]], ...] = (
    homes.check_client,
    homes.check_dependencies,
    link.check_libraries,
    link.check_blas,
    programs.check_programs,
    python.check_interpreter,
    room.check_machine,
    homes.check_driver,
)
"""Checks in the order of their rows."""


def check_build(request: BuildRequest) -> list[Check]:
    """Check all requirements of a build.

    Raises:
        OptionsError: a variable would build something else.
        FileError: there is no space for a scratch directory.
    """
    cmake_variables.refuse(request.given)
    facts = find_facts(request)
    return [facts.accept(row) for check in CHECKS for row in check(facts)]
