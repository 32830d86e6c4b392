"""The version of a patched wheel: PyTorch's own with the flags as its local part (PEP 440).

The local part is what keeps pip from taking another torch of the same release for this one.
"""

from __future__ import annotations

from patchgen.core.patch.pins import Pin
from patchgen.errors import OptionsError
from patchgen.options import Options, check_flags

_LOCAL = "switchml"


def local_version(options: Options) -> str:
    """The flags, as `switchml.dpdk.mlx5`."""
    return ".".join([_LOCAL, *(flag.lower() for flag in options.flags)])


def build_version(pin: Pin, options: Options) -> str:
    """The version of the wheel, as `1.7.1+switchml.dpdk.mlx5`, for PYTORCH_BUILD_VERSION."""
    return f"{pin.version}+{local_version(options)}"


def flags_of(version: str) -> tuple[str, ...] | None:
    """Reads the flags of a version, as `Options.flags` has them; None where it is not one of ours.

    A version has only a set of flags that `Options` takes, in the order of its flags.
    """
    release, _, local = version.partition("+")
    name, *parts = local.split(".")
    flags = tuple(part.upper() for part in parts)
    if not release or name != _LOCAL or local != local.lower():
        return None
    try:
        return flags if check_flags(flags) == flags else None
    except OptionsError:
        return None
