"""Delivers the verified wheel with its provenance, patch and constraints."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass

from patchgen.core.recipes import Recipe
from patchgen.core.wheel import provenance
from patchgen.core.wheel.values import Built, Stage
from patchgen.core.wheel.workspace import Workspace
from patchgen.system import files, statement
from patchgen.system.files import Artifact

_RUNTIME = ("numpy",)  # packages whose limits hold at run time as well
_CONSTRAINTS = """\
# For every `pip install --constraint` beside this torch: pip then fails where it would replace it.
"""


@dataclass(frozen=True)
class Delivered:
    """Delivered wheel, files beside it, and commands that install it."""

    wheel: str
    sha256: str
    python: str
    beside: tuple[str, ...]
    commands: tuple[str, ...]


def deliver(workspace: Workspace, built: Built) -> Delivered:
    """Write the files that are missing or outdated, each of them atomically.

    Raises:
        OSError: a file cannot be written.
    """
    request, python = workspace.request, workspace.request.interpreter
    os.makedirs(request.output, exist_ok=True)
    wheel = os.path.join(request.output, built.wheel.name)
    described = provenance.describe(
        built.inputs,
        Artifact(built.wheel.name, built.wheel.size, built.wheel.sha256),
        {
            Stage.COMPILE.value: built.objects.network,
            Stage.WHEEL.value: built.wheel.network,
            Stage.VERIFY.value: built.verified.network,
        },
    )
    if not os.path.isfile(wheel) or files.sha256(wheel) != built.wheel.sha256:
        with (
            open(os.path.join(request.wheels, built.wheel.name), "rb") as verified,
            files.replacing(wheel) as target,
        ):
            shutil.copyfileobj(verified, target)
    constraints = os.path.join(request.output, "constraints.txt")
    patched = os.path.join(request.output, provenance.PATCH)
    for path, content in {
        patched: request.patch.content,
        constraints: compose_constraints(request.version, request.recipe).encode(),
    }.items():
        files.replace(os.fsencode(path), content)
    beside = (patched, constraints, statement.write(wheel, described))
    commands = list_commands(python, wheel, constraints, request.recipe)
    return Delivered(wheel, built.wheel.sha256, python, beside, tuple(map(shlex.join, commands)))


def compose_constraints(version: str, recipe: Recipe) -> str:
    """Compose constraints.txt, which keeps compatible packages beside the wheel."""
    limits = [f"{name}{recipe.limits[name]}" for name in _RUNTIME if name in recipe.limits]
    return _CONSTRAINTS + "".join(f"{line}\n" for line in [f"torch=={version}", *limits])


def list_commands(
    python: str, wheel: str, constraints: str, recipe: Recipe
) -> tuple[tuple[str, ...], ...]:
    """Return the pip commands that install the wheel, its requirements and domain libraries.

    The first one forces this very file, since pip skips a wheel whose version is installed already.
    """
    pip = (python, "-m", "pip", "install")
    domain_libraries = [
        f"{name}=={version}" for name, version in sorted(recipe.domain_libraries.items())
    ]
    return (
        (*pip, "--force-reinstall", "--no-deps", wheel),
        (*pip, "--constraint", constraints, "torch", *domain_libraries),
    )
