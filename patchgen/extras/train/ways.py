"""Variants of SwitchML in the ranks, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.core.torch import GRAFT, PLUGIN, TORCH, Installed
from patchgen.errors import OptionsError

AUTO, STOCK = "auto", "stock"
WAYS = (AUTO, PLUGIN, GRAFT, TORCH, STOCK)
"""Choices of the user: the best installed variant, plugin, graft, patched torch, or Gloo alone."""


@dataclass(frozen=True)
class Way:
    """Variant of SwitchML that was chosen."""

    name: str
    """One of `WAYS`, except auto."""
    is_built: bool = False
    """True if it has to be built, False if the torch has it."""


_ANY = ""
_PATCHED = "the torch of {python} is patched; drop --way {way}"
_UNPATCHED = (
    "the torch {version} of {python} is not patched; drop --way, or build one with: "
    "switchml-patch build"
)
# The first row applies that matches the choice and a variant of the torch. A text is an error.
_TABLE = (
    # asked,  torch has,  chosen
    (AUTO,    TORCH,      Way(TORCH)),
    (AUTO,    GRAFT,      Way(GRAFT)),
    (AUTO,    PLUGIN,     Way(PLUGIN)),
    (AUTO,    _ANY,       Way(PLUGIN, is_built=True)),
    (TORCH,   TORCH,      Way(TORCH)),
    (TORCH,   _ANY,       _UNPATCHED),
    (GRAFT,   GRAFT,      Way(GRAFT)),
    (GRAFT,   TORCH,      _PATCHED),
    (GRAFT,   _ANY,       Way(GRAFT, is_built=True)),
    (PLUGIN,  PLUGIN,     Way(PLUGIN)),
    (PLUGIN,  TORCH,      _PATCHED),
    (PLUGIN,  _ANY,       Way(PLUGIN, is_built=True)),
    (STOCK,   _ANY,       Way(STOCK)),
)  # fmt: skip


def choose_way(installed: Installed, asked: str) -> Way:
    """Choose the variant for a torch.

    Raises:
        OptionsError: this torch cannot have the variant that the user asked for.
    """
    there = {_ANY, *installed.reports}
    chosen = next(way for name, support, way in _TABLE if name == asked and support in there)
    if isinstance(chosen, Way):
        return chosen
    version = installed.torch.version if installed.torch else ""
    raise OptionsError(chosen.format(python=installed.interpreter.name, version=version, way=asked))
