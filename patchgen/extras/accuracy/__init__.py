"""Errors of an allreduce's sums: SwitchML's fixed point, and float32. Needs numpy."""
