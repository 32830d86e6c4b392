"""Rows about the environment, the memory and the directory of a build."""

from __future__ import annotations

import os
from collections.abc import Iterator

from patchgen.core import recipes
from patchgen.core.recipes import Recipe
from patchgen.core.wheel.check.facts import Facts
from patchgen.system import machine, outputs
from patchgen.system.checks import Check
from patchgen.system.paths import describe

_GIB = 1 << 30
_CONDA = {False: 3, True: 6}  # GiB of an environment, without and with CUDA


def check_machine(facts: Facts) -> Iterator[Check]:
    """Check the lock, if the build uses one, the memory, and the directory of the build."""
    recipe, locked = facts.request.recipe, facts.locked
    needed = 0 if locked is None or locked.prefix else _CONDA[facts.cuda]
    if locked:
        yield Check("environment", locked.problems, locked.found)
    yield memory(recipe)
    yield disk(recipe, facts.request.work, needed)


def memory(recipe: Recipe) -> Check:
    """Return whether there is memory for one compiler, and for how many."""
    free = machine.memory() / _GIB
    cores = machine.cores()
    if free < recipe.memory:
        problem = (
            f"a compiler takes up to {recipe.memory:g} GiB: end other programs, add swap, "
            "or raise the limit of the control group"
        )
        return Check("memory", (problem,), f"{free:.1f} GiB free")
    jobs = machine.jobs(recipe.memory)
    return Check("memory", (), f"{free:.1f} GiB free, {jobs} compilers at once on {cores} cores")


def disk(recipe: Recipe, work: str, environment: float) -> Check:
    """Return whether a build fits into its directory, with an environment of so many GiB."""
    another = "name another directory with --work"
    parent = outputs.find_existing(work)
    problem = _unfit(work, parent)
    if problem:
        return Check("work", (f"{problem}; {another}",), describe(work))
    status = os.statvfs(parent)
    free, needed = status.f_bavail * status.f_frsize / _GIB, recipe.disk + environment
    found = f"{describe(work)}, {free:.1f} GiB free"
    if free >= needed:
        return Check("work", (), f"{found}, {needed:g} needed")
    if parent == work and os.listdir(work):
        problem = (
            f"a whole build takes {needed:g} GiB; make room, if what is there is not most of it"
        )
        return Check("work", (problem,), found, required=False)
    return Check("work", (f"the build takes {needed:g} GiB; make room, or {another}",), found)


def _unfit(work: str, parent: str) -> str | None:
    """Return why nothing can be built in a directory, whose existing parent is `parent`."""
    if not recipes.takes(work):
        return recipes.PATH_RULE
    if not os.path.isdir(parent):
        return f"{describe(parent)} is no directory"
    if not os.access(parent, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        return f"{describe(parent)} cannot be written"
    if os.statvfs(parent).f_flag & os.ST_NOEXEC:
        return f"{describe(parent)} is mounted noexec: nothing that is built there runs"
    return None
