"""Ways by which SwitchML comes into the ranks, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.core.torch import GRAFT, PLUGIN, TORCH, Installed
from patchgen.errors import OptionsError

AUTO, STOCK = "auto", "stock"
WAYS = (AUTO, PLUGIN, GRAFT, TORCH, STOCK)
"""Choices of the user: the best that is there, the plugin, a graft, a patched torch, Gloo alone."""


@dataclass(frozen=True)
class Way:
    """Way by which SwitchML comes into the ranks."""

    name: str
    """Name of the way: of `WAYS`, but not auto."""
    is_built: bool = False
    """True where it has to be built; False where the torch has it."""


_ANY = ""
_PATCHED = "the torch of {python} is patched; drop --way {way}"
_UNPATCHED = (
    "the torch {version} of {python} is not patched; drop --way, or build one with: "
    "switchml-patch build"
)
# The first row counts whose way was asked for and whose support the torch has. A text refuses.
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
    """Chooses the way for a torch.

    Args:
        installed: the torch, with Gloo, and its support.
        asked: choice of the user among `WAYS`.

    Raises:
        OptionsError: the torch cannot have what was asked for.
    """
    there = {_ANY, *installed.reports}
    chosen = next(way for name, support, way in _TABLE if name == asked and support in there)
    if isinstance(chosen, Way):
        return chosen
    version = installed.torch.version if installed.torch else ""
    raise OptionsError(chosen.format(python=installed.interpreter.name, version=version, way=asked))
