"""SwitchML in an installed torch: what an interpreter's torch is, and which support it has."""

from patchgen.core.torch.installed import GRAFT, PLUGIN, TORCH, Installed, Support, Torch
from patchgen.core.torch.probing import probe_torch

__all__ = ["GRAFT", "PLUGIN", "TORCH", "Installed", "Support", "Torch", "probe_torch"]
