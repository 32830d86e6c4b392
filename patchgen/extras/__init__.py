"""Extras: what stands beside the core, which imports nothing of it."""
