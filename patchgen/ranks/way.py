"""How SwitchML comes into the ranks: the names of the ways."""

from __future__ import annotations

AUTO, PLUGIN, GRAFT, TORCH, STOCK = WAYS = ("auto", "plugin", "graft", "torch", "stock")
"""What is there, else the plugin; the plugin; a graft; a patched torch; not at all."""
