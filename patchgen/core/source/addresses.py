"""URLs of repositories: as recorded, and after a repository was renamed."""

from __future__ import annotations

import posixpath
import re

PYTORCH = "https://github.com/pytorch/pytorch.git"
SOURCE = "pytorch"
"""Name of PyTorch's own commit among the materials of a provenance."""

# owner/name on GitHub, in lower case, and its later names. A commit has the same content in each
# repository, so a wrong line costs one more attempt. As rules for git (url.NEW.insteadOf OLD) they
# would hide the user's own, since git applies the longest only.
RENAMED = {
    "01org/mkl-dnn": ("uxlfoundation/oneDNN", "oneapi-src/oneDNN"),
    "01org/tbb": ("uxlfoundation/oneTBB", "oneapi-src/oneTBB"),
    "eigenteam/eigen-git-mirror": ("https://gitlab.com/libeigen/eigen.git",),
    "facebookincubator/gloo": ("pytorch/gloo",),
    "google/protobuf": ("protocolbuffers/protobuf",),
    "houseroad/foxi": ("pytorch/foxi",),
    "intel/mkl-dnn": ("uxlfoundation/oneDNN", "oneapi-src/oneDNN"),
    "maratyszcza/cpuinfo": ("pytorch/cpuinfo",),
    "maratyszcza/pthreadpool": ("google/pthreadpool",),
    "nvlabs/cub": ("NVIDIA/cub",),
    "peachpy/enum34": ("Maratyszcza/enum34",),
    "pytorch/fbgemm": ("pytorch/FBGEMM",),
    "seemethere/pybind11": ("pybind/pybind11",),
}


def resolve(url: str, parent: str) -> str:
    """Return a submodule's URL; `./` and `../` are relative to its parent's URL."""
    if not url.startswith(("./", "../")):
        return url
    scheme, sign, rest = parent.rpartition("://")
    return scheme + sign + posixpath.normpath(posixpath.join(rest, url))


def owner_and_name(url: str) -> tuple[str, str]:
    """Return the last two parts of a URL, without .git."""
    parts = [part for part in re.split(r"[/:]", url.rstrip("/").removesuffix(".git")) if part]
    return (parts[-2] if len(parts) > 1 else "", parts[-1] if parts else "")


def list_addresses(url: str) -> tuple[str, ...]:
    """Return a URL, and the later URLs of its repository."""
    later = RENAMED.get("/".join(owner_and_name(url)).lower(), ())
    return (url, *(new if ":" in new else f"https://github.com/{new}.git" for new in later))
