"""CGX's communication hook: `quantized_hook` with CGX's arguments, for programs that used CGX.

CGX is a process group that compresses gradients: https://github.com/IST-DASLab/torch_cgx.

Example:
    from torch_switchml.cgx import CGXState, cgx_hook

    state = CGXState(
        torch.distributed.group.WORLD,
        layer_min_size=1024,
        compression_params={"bits": 4, "bucket_size": 1024},
    )
    model.register_comm_hook(state, cgx_hook)
"""

import os
import warnings

from torch_switchml._quantization_settings import UNQUANTIZED_BITS
from torch_switchml._quantized import QuantizedState, quantized_hook

__all__ = ["CGXState", "cgx_hook"]

_OURS, _THEIRS = "SWITCHML_QUANTIZATION_", "CGX_COMPRESSION_"
# Variables of CGX that have no effect, and what to use instead.
_UNUSED = {
    "CGX_FUSION_BUFFER_SIZE_MB": "bucket_cap_mb of DistributedDataParallel",
    "CGX_INNER_COMMUNICATOR_TYPE": "the backend of the process group",
    "CGX_CROSS_COMMUNICATOR_TYPE": "the backend of the process group",
    "CGX_INTRA_BROADCAST": "torch_switchml.hierarchical_hook, which sums float32,",
}
_SMALLEST_LAYER = 16  # values; smaller layers are never quantized


def _variable(ours, theirs, default):
    """Return the number in our environment variable, else in CGX's, else the default.

    Raises:
        ValueError: the variable is not an integer.
    """
    for name in (_OURS + ours, _THEIRS + theirs):
        text = os.environ.get(name, "")
        if text:
            try:
                return int(text)
            except ValueError:
                raise ValueError(f"{name}={text!r}: give an integer") from None
    return default


def _skip_incomplete():
    """Return the flag from the environment.

    Raises:
        ValueError: the variable is neither 0 nor 1.
    """
    value = _variable("SKIP_INCOMPLETE_BUCKETS", "SKIP_INCOMPLETE_BUCKETS", 0)
    if value not in {0, 1}:
        raise ValueError(f"SKIP_INCOMPLETE_BUCKETS={value}: give 0 or 1")
    return value == 1


class CGXState(QuantizedState):
    """`QuantizedState` with the arguments and variables of CGX; see docs/compression.md.

    Args:
        process_group: process group of DistributedDataParallel; None for the default group.
        layer_min_size: layers with fewer values are not quantized.
        compression_params: dict with "bits", 1 to 8, "bucket_size", or both. Missing values come
            from the environment, else they are 32 bits, which quantizes nothing, and 512.

    Raises:
        ValueError: an argument or a variable is not allowed.
    """

    def __init__(self, process_group, layer_min_size=1024, compression_params=None):
        given = dict(compression_params or {})
        bits = given.pop("bits", None)
        bucket_size = given.pop("bucket_size", None)
        if given:
            raise ValueError(f"compression_params: no {', '.join(map(repr, given))} is known")
        if bits is None:
            bits = _variable("BITS", "QUANTIZATION_BITS", UNQUANTIZED_BITS)
        if bucket_size is None:
            bucket_size = _variable("BUCKET_SIZE", "BUCKET_SIZE", 512)
        least = max(_variable("MINIMAL_SIZE", "MINIMAL_SIZE", 0), _SMALLEST_LAYER)
        super().__init__(
            bits,
            bucket_size,
            max(layer_min_size, least) if isinstance(layer_min_size, int) else layer_min_size,
            skip_incomplete=_skip_incomplete(),
            process_group=process_group,
        )
        for name, here in _UNUSED.items():
            if os.environ.get(name):
                warnings.warn(f"{name} has no effect: {here} decides that here", stacklevel=2)
        if os.environ.get(_OURS + "BITS", "") not in {"", str(UNQUANTIZED_BITS)}:
            warnings.warn(
                f"{_OURS}BITS is also the group's: SwitchML rounds what cgx_hook leaves as it is; "
                f"compression_params and {_THEIRS}QUANTIZATION_BITS are the hook's alone",
                stacklevel=2,
            )


cgx_hook = quantized_hook
