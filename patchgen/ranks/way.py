"""How SwitchML comes into the ranks: the names of the ways."""

from __future__ import annotations

from patchgen.torch import GRAFT, PLUGIN, TORCH

AUTO, STOCK = "auto", "stock"
WAYS = (AUTO, PLUGIN, GRAFT, TORCH, STOCK)
"""What is there, else the plugin; the plugin; a graft; a patched torch; not at all."""
