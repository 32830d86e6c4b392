"""Makes a pin from a checkout of PyTorch, and checks one against it. For maintainers."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from patchgen.core.patch import images, render
from patchgen.core.patch.pins import LAYOUT, Hook, HookedFile, Pin
from patchgen.errors import FileError, OptionsError, TreeError, file_errors
from patchgen.system import paths
from patchgen.system.objects import blob_id

if TYPE_CHECKING:
    from patchgen.core.patch.pins import Anchor

_CONTEXT = 3
_NOT_OF_THE_TREE = {"files", "anchors", "recipe"}


def make(tree: str, like: Pin, name: str, commit: str) -> Pin:
    """A pin of the tree, with hooks where the anchors of another pin match.

    Args:
        tree: a checkout of `commit`, unpatched.
        like: a pin of the same layout. What building that needs is not taken over.
        name: of the pin, as v1.7.1.
        commit: all 40 digits.

    Raises:
        OptionsError: `commit` is not a full id.
        TreeError: an anchor does not match exactly once.
        FileError: a file cannot be read.
    """
    if not re.fullmatch("[0-9a-f]{40}", commit):
        raise OptionsError(f"{commit}: give the full commit id, 40 hexadecimal digits")
    contents = {anchor.file: _read(tree, anchor.file) for anchor in like.anchors}
    files = tuple(
        HookedFile(path, blob_id(content), "", _hooks(path, content, like))
        for path, content in contents.items()
    )
    draft = Pin(
        name=name, version=name.removeprefix("v"), commit=commit, hooks_sha256="", files=files,
        **{key: getattr(like, key) for key in LAYOUT},
    )  # fmt: skip
    texts = render.hooks(draft)
    return draft._replace(
        hooks_sha256=render.hooks_digest(texts),
        files=tuple(
            file._replace(post=blob_id(images.post_image(file, contents[file.path], texts)))
            for file in files
        ),
    )


def check(pin: Pin, tree: str, like: Pin) -> list[str]:
    """Differences between a pin and the one that the tree would give; empty when all agrees.

    Raises:
        FileError: a file cannot be read.
    """
    try:
        fresh = make(tree, like, pin.name, pin.commit)
    except TreeError as error:
        return [str(error)]
    problems = [
        f"{name}: the pin has {pinned}, this gives {made}"
        for name, pinned, made in zip(Pin._fields, pin, fresh)
        if name not in _NOT_OF_THE_TREE and made != pinned
    ]
    ours = {file.path: file for file in pin.files}
    for file in fresh.files:
        pinned = ours.pop(file.path, None)
        if pinned is None:
            problems.append(f"{file.path}: not in the pin")
        elif pinned != file:
            problems.append(
                f"{file.path}: the pin has {pinned.pre} to {pinned.post}, "
                f"this gives {file.pre} to {file.post}"
            )
    return problems + [f"{path}: in the pin only" for path in ours]


def _read(tree: str, path: str) -> bytes:
    with file_errors(), open(paths.encode(os.path.join(tree, path)), "rb") as file:
        content = file.read()
    if not content.endswith(b"\n") or b"\r" in content:
        raise FileError(f"{path}: its lines must all end with a line feed")
    return content


def _hooks(path: str, content: bytes, like: Pin) -> tuple[Hook, ...]:
    lines = [paths.decode(line[:-1]) for line in images.lines_of(content)]
    hooks = []
    for anchor in like.anchors:
        if anchor.file == path:
            line = _line(content, anchor)
            before = tuple(lines[max(0, line - _CONTEXT) : line])
            hooks.append(Hook(anchor.name, line, before, tuple(lines[line : line + _CONTEXT])))
    return tuple(sorted(hooks, key=lambda hook: hook.line))


def _line(content: bytes, anchor: Anchor) -> int:
    """The number of lines up to the end of the anchor's head."""
    text = re.escape(paths.encode(anchor.head + anchor.tail))
    # An anchor is whole lines. The lookahead also finds matches that overlap.
    starts = [match.start() for match in re.finditer(b"(?m)^(?=%s)" % text, content)]
    if len(starts) != 1:
        raise TreeError(
            f"{anchor.file}: the anchor of hook {anchor.name} matches {len(starts)} times, not once"
        )
    return content.count(b"\n", 0, starts[0]) + anchor.head.count("\n")
