"""Blob ids, as git computes them."""

from __future__ import annotations

import hashlib

ABSENT = "0" * 40


def blob_id(content: bytes) -> str:
    """The id under which git stores `content`, 40 hexadecimal digits."""
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()
