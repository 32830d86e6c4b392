"""Where a repository may be had: a reference, mirrors, its recorded address, its later ones."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchgen.source.repository import Repository

PYTORCH = "https://github.com/pytorch/pytorch.git"

# owner/name on GitHub, in lower case, and where it went. A commit that another repository serves is
# the same commit, so a wrong line here costs a try and nothing else.
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


@dataclass(frozen=True)
class Source:
    """Something that git can fetch from."""

    address: str
    bundle: bool = False


def relative(url: str, parent: str) -> str:
    """The address that a submodule's `./` or `../` means, as git has it."""
    if not url.startswith(("./", "../")):
        return url
    base = parent.rstrip("/")
    while url.startswith(("./", "../")):
        if url.startswith("../"):
            head = re.match(r"(.*)[/:]", base)
            base = head[1] if head else "."
        url = url.partition("/")[2]
    return f"{base}/{url}"


def owner_and_name(url: str) -> tuple[str, str]:
    """The last two parts of an address, without .git."""
    parts = [part for part in re.split(r"[/:]", url.rstrip("/").removesuffix(".git")) if part]
    return (parts[-2] if len(parts) > 1 else "", parts[-1] if parts else "")


def known(url: str) -> tuple[str, ...]:
    """The address and those that its repository had later."""
    later = RENAMED.get("/".join(owner_and_name(url)).lower(), ())
    return (url, *(new if ":" in new else f"https://github.com/{new}.git" for new in later))


def checked(mirror: str) -> str:
    """A mirror as an absolute path or an address.

    Raises:
        OptionsError: it is a path and not there, or not one that git can read.
    """
    if "://" in mirror or re.match(r"[\w.-]+@[\w.-]+:", mirror):
        return mirror.rstrip("/")
    path = os.path.abspath(mirror)
    if not os.path.isdir(path) and not (os.path.isfile(path) and _is_bundle(path)):
        what = "neither a directory nor a bundle" if os.path.exists(path) else "no such path"
        raise OptionsError(f"--mirror {mirror}: {what}")
    return path


def checked_reference(reference: str) -> str:
    """A local clone as an absolute path.

    Raises:
        OptionsError: it is no repository.
    """
    path = os.path.abspath(reference)
    if not _is_repository(path):
        raise OptionsError(f"--reference {reference}: not a git repository")
    return path


def sources(
    repository: Repository, mirrors: Sequence[str], references: Sequence[str]
) -> Iterator[Source]:
    """Where to look for the repository, in order. Local places are only those that are there."""
    for reference in references:
        yield from _referenced(repository, reference)
    addresses = known(repository.url)
    for mirror in mirrors:
        if os.path.isdir(mirror):
            yield from _in_directory(mirror, addresses)
        elif os.path.isfile(mirror):
            names = {name for address in addresses for name in _names(address)}
            stem = os.path.basename(mirror).rpartition(".")[0]
            if not repository.path or stem in names:
                yield Source(mirror, bundle=True)
        else:
            yield from (Source(f"{mirror}/{name}") for name in _served(addresses))
    yield from map(Source, addresses)


def _referenced(repository: Repository, reference: str) -> Iterator[Source]:
    work_tree = os.path.join(reference, repository.path) if repository.path else reference
    if _is_repository(work_tree):
        yield Source(work_tree)
        return
    git_dir = os.path.join(reference, ".git")
    for base in (git_dir, reference):
        modules = os.path.join(base, *(part for name in repository.names
                                       for part in ("modules", name)))  # fmt: skip
        if repository.names and _is_repository(modules):
            yield Source(modules)


def _in_directory(mirror: str, addresses: Sequence[str]) -> Iterator[Source]:
    if _is_repository(mirror):
        yield Source(mirror)
        return
    for name in dict.fromkeys(name for address in addresses for name in _names(address)):
        for candidate in (name, f"{name}.git"):
            if _is_repository(path := os.path.join(mirror, candidate)):
                yield Source(path)
        if _is_bundle(path := os.path.join(mirror, f"{name}.bundle")):
            yield Source(path, bundle=True)


def _served(addresses: Sequence[str]) -> dict[str, None]:
    parts = [owner_and_name(address) for address in addresses]
    return dict.fromkeys(
        path for owner, name in parts for path in (f"{owner}/{name}.git", f"{name}.git")
    )


def _names(address: str) -> tuple[str, ...]:
    owner, name = owner_and_name(address)
    return (f"{owner}+{name}", os.path.join(owner, name), name)


def _is_repository(path: str) -> bool:
    """A work tree or a bare repository."""
    bare = os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(
        os.path.join(path, "objects")
    )
    return bare or os.path.exists(os.path.join(path, ".git"))


def _is_bundle(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(16).startswith((b"# v2 git bundle", b"# v3 git bundle"))
    except OSError:
        return False
