"""Version of a patched wheel: PyTorch's own with the flags as local part (PEP 440).

The local part keeps pip from taking another torch of the same release for this one.
"""

from __future__ import annotations

from patchgen.core.patch.pins import Pin
from patchgen.errors import OptionsError
from patchgen.options import Options, check_flags

_LOCAL = "switchml"


def local_version(options: Options) -> str:
    """Return the flags as local part of a version: `switchml.dpdk.mlx5`."""
    return ".".join([_LOCAL, *(flag.lower() for flag in options.flags)])


def build_version(pin: Pin, options: Options) -> str:
    """Return the wheel's PYTORCH_BUILD_VERSION: `1.7.1+switchml.dpdk.mlx5`."""
    return f"{pin.version}+{local_version(options)}"


def flags_of(version: str) -> tuple[str, ...] | None:
    """Return the flags in a patched wheel's version, sorted as in `Options`; else None."""
    release, _, local = version.partition("+")
    name, *parts = local.split(".")
    flags = tuple(part.upper() for part in parts)
    if not release or name != _LOCAL or local != local.lower():
        return None
    try:
        return flags if check_flags(flags) == flags else None
    except OptionsError:
        return None
