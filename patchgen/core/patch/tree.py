"""Applies the patch to a tree, and reverts it, file by file and without git."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.core.patch import images, render, transaction
from patchgen.core.patch.pins import HookedFile, Pin
from patchgen.core.patch.state import (
    FileKind,
    FileState,
    State,
    inspect,
    refusal,
    resolve,
)
from patchgen.core.patch.transaction import Change
from patchgen.errors import TreeError, file_errors
from patchgen.options import Options
from patchgen.system import lock, paths
from patchgen.system.files import TEMPORARY


@dataclass(frozen=True)
class Result:
    """Result of `apply` or `revert`: state before, pin, and changed paths in order."""

    before: State
    pin: Pin
    changed: tuple[str, ...]


def apply(
    tree: str,
    options: Options,
    pins: Sequence[Pin],
    wanted: Pin | None = None,
    *,
    dry: bool = False,
) -> Result:
    """Patch a tree, or change the options of a patched one. Write only files that differ.

    New files are written first. So after a kill the tree builds as unpatched, or does not build,
    but never builds anything else.

    Raises:
        TreeError: a file is neither pre-image nor post-image, or the tree is not of the pin
            `wanted`.
        FileError: the file system refused. In both cases nothing was changed.
    """
    with file_errors(), lock.held(resolve(tree)):
        state, pin = _inspect_known(tree, pins, wanted)
        texts = render.pinned_hooks(pin)
        hooked = {
            file.path: _post(file, found, texts) for file, found in zip(pin.files, state.hooked)
        }
        return _perform(state, pin, {**render.new_files(options, pin), **hooked}, dry=dry)


def revert(tree: str, pins: Sequence[Pin], wanted: Pin | None = None) -> Result:
    """Restore an unpatched tree, also after an interrupted change.

    Raises:
        TreeError: a file is neither unpatched nor written by this version; nothing was changed.
        FileError: the file system refused; nothing was changed.
    """
    with file_errors(), lock.held(resolve(tree)):
        state, pin = _inspect_known(tree, pins, wanted)
        texts = render.pinned_hooks(pin)
        hooked = {
            file.path: _pre(file, found, texts)
            for file, found in zip(reversed(pin.files), reversed(state.hooked))
        }
        return _perform(state, pin, {**hooked, **dict.fromkeys(render.new_paths(pin))})


def patched_sources(
    tree: str, pins: Sequence[Pin], likely: Pin | None
) -> tuple[Pin, dict[str, bytes]]:
    """Return the pin of a tree, patched or not, and its hooked files' post-images.

    `likely` is chosen among pins that match equally.

    Raises:
        TreeError: a file is neither pre-image nor post-image.
    """
    state = inspect(paths.from_native(tree), pins, likely)
    pin = _require_known(state)
    texts = render.pinned_hooks(pin)
    return pin, {
        file.path: _post(file, found, texts) for file, found in zip(pin.files, state.hooked)
    }


def _inspect_known(tree: str, pins: Sequence[Pin], wanted: Pin | None) -> tuple[State, Pin]:
    """Inspect a tree, and refuse it unless all of its files are in a known state."""
    state = inspect(tree, pins, wanted)
    if state.pin is not None and wanted is not None and state.pin != wanted:
        raise TreeError(
            f"{paths.printable(state.root)}: this is {state.pin.name}, not {wanted.name}; "
            "give a tree of that version, or another --pytorch or patch"
        )
    return state, _require_known(state)


def _require_known(state: State) -> Pin:
    """Return the pin of a tree, unless a file of it is in an unknown state."""
    if state.pin is None or state.wrong:
        raise TreeError(refusal(state))
    return state.pin


def _post(file: HookedFile, found: FileState, texts: Mapping[str, bytes]) -> bytes:
    content = found.content or b""
    known = found.kind is FileKind.POST
    return content if known else images.pinned_post(file, content, texts)


def _pre(file: HookedFile, found: FileState, texts: Mapping[str, bytes]) -> bytes:
    content = found.content or b""
    return images.pinned_pre(file, content, texts) if found.kind is FileKind.POST else content


def _perform(
    state: State, pin: Pin, wanted: Mapping[str, bytes | None], *, dry: bool = False
) -> Result:
    before = {file.path: file.content for file in state.files}
    changes = [
        Change(path, before[path], after) for path, after in wanted.items() if before[path] != after
    ]
    if not dry:
        transaction.perform(state.root, changes, TEMPORARY)
        transaction.clean(state.root, state.leftovers)
        transaction.prune(state.root, [path for path, after in wanted.items() if after is None])
    return Result(state, pin, tuple(change.path for change in changes))
