"""Errors of an allreduce's sums: SwitchML's fixed point beside other methods.

Tensors are float32 arrays of shape [workers, numel], read in blocks. numpy is needed by the modules
of this package only.
"""
