"""Errors of an allreduce's sums: SwitchML's fixed point beside float32. It needs numpy."""
