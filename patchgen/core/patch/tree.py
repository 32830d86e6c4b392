"""Applies the patch to a tree and takes it back, file by file and without git."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.core.patch import images, render, transaction
from patchgen.core.patch.pins import HookedFile, Pin, shipped
from patchgen.core.patch.state import (
    TEMPORARY,
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


@dataclass(frozen=True)
class Result:
    """Result of a run: the state it found, the pin, the files it wrote or removed, in order."""

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
    """Patches a tree, or brings a patched one to other options. Only files that differ are written.

    New files come first, so that a tree whose run was killed still builds as unpatched, or fails
    to build, but never builds something else.

    Args:
        tree: a directory.
        options: the flags and homes.
        pins: the known ones.
        wanted: the one that the tree must be of, where the user said so.
        dry: changes nothing.

    Raises:
        TreeError: a file is neither pre-image nor post-image; nothing was changed.
        FileError: the file system refused; nothing was changed.
    """
    with file_errors(), lock.held(resolve(tree)):
        state, pin = _inspect_known(tree, pins, wanted)
        texts = render.pinned_hooks(pin)
        hooked = {
            file.path: _post(file, found, texts) for file, found in zip(pin.files, state.hooked)
        }
        return _perform(state, pin, {**render.new_files(options, pin), **hooked}, dry=dry)


def revert(tree: str, pins: Sequence[Pin], wanted: Pin | None = None) -> Result:
    """Takes a tree back to what it was, also from a half-made change.

    Raises:
        TreeError: a file is not one that this tool wrote; nothing was changed.
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
    tree: str | os.PathLike[str], pins: Sequence[Pin] | None = None
) -> tuple[Pin, dict[str, bytes]]:
    """The pin of a tree, patched or not, and the post-images of its hooked files. Only reads.

    Raises:
        TreeError: a file is neither pre-image nor post-image.
    """
    source = paths.from_native(os.fspath(tree))
    state, pin = _inspect_known(source, shipped() if pins is None else pins, None)
    texts = render.pinned_hooks(pin)
    return pin, {
        file.path: _post(file, found, texts) for file, found in zip(pin.files, state.hooked)
    }


def _inspect_known(tree: str, pins: Sequence[Pin], wanted: Pin | None) -> tuple[State, Pin]:
    """Inspects a tree whose every file must be in a known state."""
    everything = pins if wanted is None or wanted in pins else (*pins, wanted)
    state = inspect(tree, everything)
    if state.pin is not None and wanted is not None and state.pin != wanted:
        raise TreeError(
            f"{paths.printable(state.root)}: this is {state.pin.name}, not {wanted.name}; "
            "give a tree of that version, or another --pytorch or patch"
        )
    if state.pin is None or state.wrong:
        raise TreeError(refusal(state))
    return state, state.pin


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
    return Result(state, pin, tuple(change.path for change in changes))
