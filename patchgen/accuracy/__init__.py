"""How far the sums of an allreduce are from exact ones: SwitchML's fixed point beside others.

Tensors are float32 arrays of shape [workers, numel], read in blocks. numpy is needed by the modules
of this package only, matplotlib by `figure`.
"""
