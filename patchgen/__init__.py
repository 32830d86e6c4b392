"""Generates, applies and reverts the patch that hands PyTorch's Gloo allreduce to SwitchML."""

__version__ = "0.1.0"
