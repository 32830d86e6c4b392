"""Source files of a graft: the patched process group, and headers that torch lacks."""

from __future__ import annotations

import logging
import os
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from patchgen.core.patch import patches, render, tree
from patchgen.core.patch.pins import OTHERWISE, HookedFile, Pin
from patchgen.core.source.commit import Commit, open_pinned
from patchgen.core.source.fetch import NowhereError
from patchgen.core.source.remotes import Remotes
from patchgen.core.torch import Torch
from patchgen.errors import OptionsError, ToolError, TreeError, file_errors
from patchgen.system import paths

_LOGGER = logging.getLogger(__name__)

GLOO = "third_party/gloo"  # path in PyTorch, and in the project of a graft

_GLOO_HEADER = "gloo/allreduce.h"
_GLOO_SUFFIXES = (".h", "config.h.in")
_HEADERS = (".h", ".hpp")
_COMMIT_DIGITS = 40
_SYSTEM = "/usr/include"
_ADVICE = (
    "without a network give --source (the source of that torch, with third_party/gloo), --mirror "
    "or --reference, or set url.<base>.insteadOf in git's configuration"
)


@dataclass(frozen=True)
class GraftOrigin:
    """Cache directory and remotes of a graft's source, which are tried before the network."""

    cache: str
    remotes: Remotes = field(default_factory=Remotes)


def gather(
    torch: Torch, source: str | None, known: Sequence[Pin], origin: GraftOrigin
) -> tuple[Pin, dict[str, bytes]]:
    """Return the pin of a graft's source, and the source files by path.

    Raises:
        OptionsError: no pin fits the torch.
        TreeError: the source is of no known pin, or of another torch.
        ToolError: a file could not be fetched.
        FileError: a file cannot be read or written.
    """
    message = "torch %s in %s, source %s"
    known = [_own(pin, torch) for pin in known if torch.commit in pin.grafts] or known
    if source is None:
        pin = pin_of(torch, known)
        _LOGGER.info(message, torch.version, torch.root, pin.name)
        return pin, fetched(pin, torch, origin, gloo_only=False)
    pin, sources = from_tree(source, torch, known)
    _LOGGER.info(message, torch.version, torch.root, pin.name)
    if not gloo_directory(torch) and not any(path.startswith(GLOO) for path in sources):
        sources |= fetched(pin, torch, origin, gloo_only=True)
    return pin, sources


def pin_of(torch: Torch, known: Sequence[Pin]) -> Pin:
    """Return the pin of a torch's source.

    Raises:
        OptionsError: no pin fits the torch.
    """
    for pin in known:
        if _is_of(torch, pin):
            return pin
    names = ", ".join(pin.name for pin in known)
    raise OptionsError(
        f"torch {torch.version} (commit {torch.commit[:12]}): no pin for it, so no graft; known "
        f"are {names};\n{OTHERWISE}"
    )


def check_version(torch: Torch, pin: Pin) -> None:
    """Check that the torch and the pin of the source are the same release.

    Raises:
        TreeError: they differ.
    """
    if not _is_of(torch, pin):
        raise TreeError(
            f"the torch in use is {torch.version} (commit {torch.commit}), the source is "
            f"{pin.name} ({pin.commit[:10]}); a graft is made from the source of its own torch"
        )


def _own(pin: Pin, torch: Torch) -> Pin:
    """Return the pin with the torch's own commit, whose process group is the same."""
    own = pin._replace(commit=torch.commit, files=_hooked(pin))
    return own._replace(hooks_sha256=render.hooks_digest(render.hooks(own)))


def _is_of(torch: Torch, pin: Pin) -> bool:
    """Return whether the torch is of the pin's commit.

    A distribution's torch may not know its commit. Then its version is compared with the release,
    and with the release's x.y.0, which version.txt may have.
    """
    if len(torch.commit) == _COMMIT_DIGITS:
        return torch.commit == pin.commit
    found = re.match(r"[0-9.]*[0-9]", torch.version)
    release = found.group() if found else torch.version
    return release in (pin.version, pin.version.rsplit(".", 1)[0] + ".0")


def from_tree(source: str, torch: Torch, known: Sequence[Pin]) -> tuple[Pin, dict[str, bytes]]:
    """Return the pin of a tree, patched or not, and the files that a graft needs, by path.

    Raises:
        TreeError: the tree is of no pin, of another torch, or has a foreign edit.
    """
    own = next((pin for pin in known if _is_of(torch, pin)), None)
    pin, patched = tree.patched_sources(source, known, own)
    check_version(torch, pin)
    found = {hooked.path: patched[hooked.path] for hooked in _hooked(pin)}
    top = os.path.join(source, GLOO)
    if not gloo_directory(torch) and os.path.exists(os.path.join(top, _GLOO_HEADER)):
        for directory, _, names in os.walk(os.path.join(top, "gloo")):
            for name in names:
                path = os.path.join(directory, name)
                if name.endswith(_GLOO_SUFFIXES):
                    with file_errors(), open(path, "rb") as file:
                        found[os.path.join(GLOO, os.path.relpath(path, top))] = file.read()
    return pin, found


def fetched(pin: Pin, torch: Torch, origin: GraftOrigin, *, gloo_only: bool) -> dict[str, bytes]:
    """Return the files that a graft needs of the pin's commit and of its gloo, by path.

    With `gloo_only`, returns the headers of gloo only.

    Raises:
        ToolError: git is missing, or a file could not be fetched.
        FileError: the cache cannot be written.
    """
    cache, remotes = origin.cache, origin.remotes
    commit = open_pinned(pin, cache, remotes)
    found = {}
    try:
        with file_errors():
            if not gloo_only:
                paths_of = ", ".join(hooked.path for hooked in _hooked(pin))
                _LOGGER.info("getting %s of PyTorch %s", paths_of, pin.name)
                found.update(_process_group(commit, pin, torch))
            if not gloo_directory(torch):
                _LOGGER.info("getting gloo's headers")
                gloo = next(one for one in commit.submodules() if one.path == GLOO)
                headers = Commit(gloo, cache, remotes)
                contents = headers.contents(headers.files("gloo", _GLOO_SUFFIXES))
                found.update({posixpath.join(GLOO, path): text for path, text in contents.items()})
    except NowhereError as error:
        raise NowhereError(f"{error}\n{_ADVICE}") from error
    return found


def _process_group(commit: Commit, pin: Pin, torch: Torch) -> dict[str, bytes]:
    pre = commit.contents({hooked.path: hooked.pre for hooked in _hooked(pin)})
    edited = [file for file in patches.edited_files(pin) if file.path in pre]
    post = {file.path: file.apply(pre[file.path]) for file in edited}
    header = os.path.join(pin.include_prefix, "ProcessGroupGloo.hpp")
    if any(os.path.exists(os.path.join(base, header)) for base in torch.include_dirs):
        return post
    wanted = {
        posixpath.join(pin.source_dir, entry.name): entry.id
        for entry in commit.directory(pin.source_dir)
        if entry.name.endswith(_HEADERS)
    }
    return {**commit.contents(wanted), **post}


def _hooked(pin: Pin) -> tuple[HookedFile, ...]:
    """Return the hooked sources of the process group, without build files."""
    return tuple(file for file in pin.files if file.path.endswith((".cpp", ".hpp")))


def gloo_directory(torch: Torch) -> str | None:
    """Return the directory of the gloo headers installed with the torch; None if there are none.

    A distribution's torch uses the distribution's gloo. Any other torch contains its own gloo.

    Raises:
        ToolError: the distribution's headers are not installed.
    """
    base = torch.include_base
    installed = os.path.dirname(os.path.realpath(os.path.join(base, "ATen")))
    for directory in (base, installed):
        if os.path.exists(os.path.join(directory, _GLOO_HEADER)):
            return directory
    if installed == _SYSTEM:
        raise ToolError(
            f"the headers of the gloo that the torch in {paths.printable(torch.root)} uses are "
            "missing: install them (Debian: libgloo-dev)"
        )
    return None
