"""The version of a patched wheel: PyTorch's own with the flags as its local part (PEP 440).

The local part is what keeps pip from taking another torch of the same release for this one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchgen.options import Options
    from patchgen.patch.pins import Pin

_LOCAL = "switchml"
# Only the sets of flags that Options takes, in the order of its flags.
_FLAGS = re.compile(rf"[^+]+\+{_LOCAL}((?:\.dpdk(?:\.mlx5|\.mlx4)?|\.rdma)?(?:\.debug)?)")


def local_version(options: Options) -> str:
    """The flags, as `switchml.dpdk.mlx5`."""
    return ".".join([_LOCAL, *(flag.lower() for flag in options.flags)])


def build_version(pin: Pin, options: Options) -> str:
    """The version of the wheel, as `1.7.1+switchml.dpdk.mlx5`, for PYTORCH_BUILD_VERSION."""
    return f"{pin.version}+{local_version(options)}"


def flags_of(version: str) -> tuple[str, ...] | None:
    """The flags of a version, as `Options.flags` has them; None where it is not one of ours."""
    found = _FLAGS.fullmatch(version)
    return None if found is None else tuple(found[1].upper().split(".")[1:])
