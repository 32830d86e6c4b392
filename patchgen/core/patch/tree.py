"""Applies a patch to a tree, and reverts it, file by file and without git."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen.core.patch import patches, render, transaction
from patchgen.core.patch.patches import Patch
from patchgen.core.patch.pins import Pin
from patchgen.core.patch.state import State, inspect, refusal, resolve
from patchgen.core.patch.transaction import Change
from patchgen.errors import TreeError, file_errors
from patchgen.options import Options
from patchgen.system import lock, paths
from patchgen.system.files import TEMPORARY


@dataclass(frozen=True)
class Result:
    """Result of a patch that was applied or reverted: state before, pin, changed paths in order."""

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
    """Make the patch of these options for the pin of a tree, and apply it.

    Raises:
        TreeError: a file is neither pre-image nor post-image, or the tree is not of the pin
            `wanted`.
        FileError: the file system refused. In both cases nothing was changed.
    """
    with file_errors(), lock.held(resolve(tree)):
        state, pin = _inspect_known(tree, pins, wanted)
        return _write(state, patches.make(options, pin), dry=dry)


def apply_patch(tree: str, patch: Patch, pins: Sequence[Pin], *, dry: bool = False) -> Result:
    """Apply a patch to a tree; `pins` are for messages about another tree.

    Raises:
        TreeError: a file is neither pre-image nor post-image, or the tree is of another pin.
        FileError: the file system refused. In both cases nothing was changed.
    """
    with file_errors(), lock.held(resolve(tree)):
        state, _ = _inspect_known(tree, pins, patch.pin)
        return _write(state, patch, dry=dry)


def apply_inspected(state: State, patch: Patch) -> Result:
    """Apply a patch to a tree that has been inspected, and has files in known states only.

    Raises:
        TreeError: the tree has changed since.
        FileError: the file system refused. In both cases nothing was changed.
    """
    with file_errors(), lock.held(state.root):
        return _write(state, patch)


def _write(state: State, patch: Patch, *, dry: bool = False) -> Result:
    """Write those files of a patch that differ, also where a tree has other options."""
    before = {file.path: file.content for file in state.files}
    wanted = [(file.path, file.apply(before[file.path])) for file in patch.files]
    return _perform(state, patch.pin, wanted, dry=dry)


def revert(tree: str, pins: Sequence[Pin], wanted: Pin | None = None) -> Result:
    """Restore an unpatched tree, also after an interrupted change.

    Raises:
        TreeError: a file is neither unpatched nor written by this version; nothing was changed.
        FileError: the file system refused; nothing was changed.
    """
    with file_errors(), lock.held(resolve(tree)):
        state, pin = _inspect_known(tree, pins, wanted)
        before = {file.path: file.content for file in state.hooked}
        edited = reversed(patches.edited_files(pin))
        restored = [(file.path, file.revert(before[file.path])) for file in edited]
        return _perform(state, pin, [*restored, *((path, None) for path in render.new_paths(pin))])


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
    found = {file.path: file.content for file in state.hooked}
    return pin, {file.path: file.apply(found[file.path]) for file in patches.edited_files(pin)}


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


def _perform(
    state: State, pin: Pin, wanted: Iterable[tuple[str, bytes | None]], *, dry: bool = False
) -> Result:
    """Give files of a tree the wanted contents, in their order; None: no file."""
    before, after = {file.path: file.content for file in state.files}, dict(wanted)
    changes = [
        Change(path, before[path], content)
        for path, content in after.items()
        if before[path] != content
    ]
    if not dry:
        transaction.perform(state.root, changes, TEMPORARY)
        transaction.clean(state.root, state.leftovers)
        transaction.prune(state.root, [path for path, content in after.items() if content is None])
    return Result(state, pin, tuple(change.path for change in changes))
