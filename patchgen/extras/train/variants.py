"""Variants of SwitchML in the ranks, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.core.torch import GRAFT, PLUGIN, TORCH, Installed
from patchgen.errors import OptionsError

AUTO, STOCK = "auto", "stock"
VARIANTS = (AUTO, PLUGIN, GRAFT, TORCH, STOCK)
"""Choices of the user: the best installed variant, plugin, graft, patched torch, or Gloo alone."""


@dataclass(frozen=True)
class Variant:
    """Variant of SwitchML that was chosen."""

    name: str
    """One of `VARIANTS`, except auto."""
    is_built: bool = False
    """True if it has to be built, False if the torch has it."""


_ANY = ""
_PATCHED = "the torch of {python} is patched; drop --variant {variant}"
_UNPATCHED = (
    "the torch {version} of {python} is not patched; drop --variant, or build one with: "
    "switchml-patch build"
)
# The first row applies that matches the choice and a variant of the torch. A text is an error.
_TABLE = (
    # wanted,  torch has,  chosen
    (AUTO,    TORCH,      Variant(TORCH)),
    (AUTO,    GRAFT,      Variant(GRAFT)),
    (AUTO,    PLUGIN,     Variant(PLUGIN)),
    (AUTO,    _ANY,       Variant(PLUGIN, is_built=True)),
    (TORCH,   TORCH,      Variant(TORCH)),
    (TORCH,   _ANY,       _UNPATCHED),
    (GRAFT,   GRAFT,      Variant(GRAFT)),
    (GRAFT,   TORCH,      _PATCHED),
    (GRAFT,   _ANY,       Variant(GRAFT, is_built=True)),
    (PLUGIN,  PLUGIN,     Variant(PLUGIN)),
    (PLUGIN,  TORCH,      _PATCHED),
    (PLUGIN,  _ANY,       Variant(PLUGIN, is_built=True)),
    (STOCK,   _ANY,       Variant(STOCK)),
)  # fmt: skip


def choose_variant(installed: Installed, wanted: str) -> Variant:
    """Choose the variant for a torch.

    Raises:
        OptionsError: this torch cannot have the variant that the user asked for.
    """
    there = {_ANY, *installed.reports}
    chosen = next(one for name, support, one in _TABLE if name == wanted and support in there)
    if isinstance(chosen, Variant):
        return chosen
    version = installed.torch.version if installed.torch else ""
    python = installed.interpreter.name
    raise OptionsError(chosen.format(python=python, version=version, variant=wanted))
