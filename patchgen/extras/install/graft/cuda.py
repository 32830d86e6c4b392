"""CUDA headers of a toolkit or of NVIDIA's Python packages."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from patchgen.core.torch import Torch
from patchgen.errors import OptionsError
from patchgen.system import paths

HEADERS = (
    "cuda_runtime_api.h", "crt/host_config.h", "cublas_v2.h", "cusparse.h", "cusolverDn.h",
)  # fmt: skip
_PACKAGES = "nvidia-cuda-runtime, -cuda-nvcc, -cublas, -cusparse and -cusolver"


@dataclass(frozen=True)
class Cuda:
    """CUDA headers that a graft for CUDA tensors is compiled with."""

    include_dirs: tuple[str, ...]
    version: str
    """Version of the headers, such as 11.7, or "unknown"."""


def find(torch: Torch, home: str | None) -> Cuda | None:
    """Return the CUDA headers for a torch; None if none are found, or the torch has no CUDA.

    Raises:
        OptionsError: `home`, a toolkit or the directory of NVIDIA's packages, lacks a header.
    """
    if torch.cuda is None:
        return None
    beside = os.path.dirname(torch.root)
    usual = [f"/usr/local/cuda-{torch.cuda}", "/usr/local/cuda", beside, torch.purelib]
    for place in [os.path.abspath(home)] if home else usual:
        include_dirs = _include_dirs(place)
        missing = [name for name in HEADERS if not _within(include_dirs, name)]
        if home and missing:
            raise OptionsError(
                f"{paths.printable(home)}: has no {', '.join(missing)} of CUDA; give a toolkit, or "
                f"the directory of NVIDIA's packages ({_PACKAGES})"
            )
        if not missing:
            return Cuda(tuple(include_dirs), _version(include_dirs))
    return None


def advice(torch: Torch) -> str:
    """Return a message for a torch with CUDA whose headers are missing."""
    return (
        f"this torch has CUDA {torch.cuda}, but there are no headers of CUDA: the graft takes CPU "
        "tensors only, and a collective of CUDA tensors raises; for those give --cuda-home (a "
        f"toolkit) or install {_PACKAGES} for this interpreter"
    )


def _include_dirs(place: str) -> list[str]:
    base = glob.escape(place)
    patterns = ("include", "targets/*/include", "nvidia/*/include")
    return [path for pattern in patterns for path in sorted(glob.glob(os.path.join(base, pattern)))]


def _within(directories: Iterable[str], name: str) -> bool:
    return any(os.path.exists(os.path.join(directory, name)) for directory in directories)


def _version(include_dirs: Iterable[str]) -> str:
    for directory in include_dirs:
        path = os.path.join(directory, "cuda_runtime_api.h")
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                found = re.search(r"define\s+CUDART_VERSION\s+(\d+)", file.read())
            if found:
                return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}"
    return "unknown"
