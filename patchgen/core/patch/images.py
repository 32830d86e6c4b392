"""The two images of a hooked file: without the hooks (pre) and with them (post)."""

from __future__ import annotations

import io
from collections.abc import Mapping

from patchgen.core.patch.pins import HookedFile
from patchgen.errors import PatchgenError
from patchgen.system.git_objects import blob_id


def lines_of(content: bytes) -> list[bytes]:
    """Split into lines, with their ends. Only a line feed ends a line, as in git."""
    return io.BytesIO(content).readlines()


def post_image(file: HookedFile, pre: bytes, texts: Mapping[str, bytes]) -> bytes:
    """Insert the hooks into a pre-image."""
    lines = lines_of(pre)
    for hook in reversed(file.hooks):
        lines.insert(hook.line, texts[hook.name])
    return b"".join(lines)


def pinned_post(file: HookedFile, pre: bytes, texts: Mapping[str, bytes]) -> bytes:
    """Insert the hooks, and verify the result by its blob id in the pin.

    Raises:
        PatchgenError: the result has another blob id.
    """
    return _verified(file, "post", file.post, post_image(file, pre, texts))


def pinned_pre(file: HookedFile, post: bytes, texts: Mapping[str, bytes]) -> bytes:
    """Remove the hooks, and verify the result by its blob id in the pin.

    Raises:
        PatchgenError: the result has another blob id.
    """
    lines = lines_of(post)
    for hook in file.hooks:
        del lines[hook.line : hook.line + texts[hook.name].count(b"\n")]
    return _verified(file, "pre", file.pre, b"".join(lines))


def _verified(file: HookedFile, which: str, wanted: str, content: bytes) -> bytes:
    if blob_id(content) != wanted:
        raise PatchgenError(f"{file.path}: the pin's hooks do not produce its {which}-image")
    return content
