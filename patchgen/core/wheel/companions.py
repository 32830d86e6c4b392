"""Installing a wheel so that it stays, and packages of its time beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchgen.core.patch.recipes import Recipe

_RUNTIME = ("numpy",)  # limits of a recipe that hold for running as well
_CONSTRAINTS = """\
# For every `pip install --constraint` beside this torch: pip then fails where it would replace it.
"""


def constraints(version: str, recipe: Recipe) -> str:
    """The text of constraints.txt.

    Args:
        version: of the wheel, with its local part.
        recipe: of its pin.
    """
    limits = [f"{name}{recipe.limits[name]}" for name in _RUNTIME if name in recipe.limits]
    return _CONSTRAINTS + "".join(f"{line}\n" for line in [f"torch=={version}", *limits])


def commands(
    python: str, wheel: str, constraints: str, recipe: Recipe
) -> tuple[tuple[str, ...], ...]:
    """The pip commands that install a wheel, what it needs and its companions, in order.

    The first brings in this very file: pip leaves out a wheel whose version is installed already,
    and another build of ours may have the same.

    Args:
        python: the interpreter to install into.
        wheel: the path of the wheel.
        constraints: the path of constraints.txt.
        recipe: of the wheel's pin.
    """
    pip = (python, "-m", "pip", "install")
    companions = [f"{name}=={version}" for name, version in sorted(recipe.companions.items())]
    return (
        (*pip, "--force-reinstall", "--no-deps", wheel),
        (*pip, "--constraint", constraints, "torch", *companions),
    )
