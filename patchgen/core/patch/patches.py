"""The patch: one value of options and a pin, which is written, applied, and read back."""

from __future__ import annotations

import codecs
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from patchgen import __version__
from patchgen.core.patch import diff, images, record, render
from patchgen.core.patch.pins import HookedFile, Pin
from patchgen.errors import OptionsError
from patchgen.options import Options
from patchgen.system import paths
from patchgen.system.git_objects import blob_id

# The date that `git format-patch` itself writes where a date has no meaning.
_DATE = "Mon, 17 Sep 2001 00:00:00 +0000"
_RECORD = "switchml-patch: "
_SENDER = b"\nFrom: switchml-patch <"


@dataclass(frozen=True)
class AddedFile:
    """File that the patch adds to PyTorch."""

    path: str
    content: bytes

    before = None
    """There is no file before the patch."""

    @property
    def after(self) -> str:
        """Blob id after the patch."""
        return blob_id(self.content)

    @property
    def diff(self) -> bytes:
        """Diff that creates the file."""
        return diff.added(self.path, self.content)

    def apply(self, _: bytes | None) -> bytes:
        """Return the content after the patch."""
        return self.content


@dataclass(frozen=True)
class EditedFile:
    """File of PyTorch that the patch inserts hooks into.

    It is known by its blob ids and the lines around each hook, so that a patch is made without
    PyTorch.
    """

    pinned: HookedFile
    hooks: Mapping[str, bytes]
    """Lines that each hook inserts, by its name."""

    @property
    def path(self) -> str:
        """Path in the tree."""
        return self.pinned.path

    @property
    def before(self) -> str:
        """Blob id before the patch."""
        return self.pinned.pre

    @property
    def after(self) -> str:
        """Blob id after the patch."""
        return self.pinned.post

    @property
    def diff(self) -> bytes:
        """Diff that inserts the hooks."""
        return diff.modified(self.pinned, self.hooks)

    def apply(self, content: bytes | None) -> bytes:
        """Return the content after the patch, from that before or after it.

        Raises:
            PatchgenError: the result has another blob id than the pin says.
        """
        found = content or b""
        known = blob_id(found) == self.after
        return found if known else images.pinned_post(self.pinned, found, self.hooks)

    def revert(self, content: bytes | None) -> bytes:
        """Return the content before the patch, from that before or after it.

        Raises:
            PatchgenError: the result has another blob id than the pin says.
        """
        found = content or b""
        known = blob_id(found) == self.before
        return found if known else images.pinned_pre(self.pinned, found, self.hooks)


PatchedFile = Union[AddedFile, EditedFile]
"""A file of PyTorch's tree before and after the patch."""


@dataclass(frozen=True)
class Patch:
    """A patch: its options, its pin, and each file of the tree before and after it."""

    options: Options
    pin: Pin
    files: tuple[PatchedFile, ...]
    """Files in the order in which they are written: new ones first.

    So after a kill the tree builds as unpatched, or does not build, but never builds anything else.
    """

    @property
    def added(self) -> dict[str, bytes]:
        """Contents of the new files by path."""
        return {file.path: file.content for file in self.files if isinstance(file, AddedFile)}

    @functools.cached_property
    def content(self) -> bytes:
        """The patch in the mail format of `git format-patch`, with full blob ids.

        The same bytes for the same options and pin, on every machine.
        """
        pin, flags = self.pin, " ".join(self.options.flags) or "no flags"
        message = (
            f"From {pin.commit} Mon Sep 17 00:00:00 2001\n"
            "From: switchml-patch <switchml-patch@localhost>\n"
            f"Date: {_DATE}\n"
            f"Subject: [PATCH] Delegate Gloo's allreduce to SwitchML ({flags})\n"
            "\n"
            f"For PyTorch {pin.version}, commit {pin.commit}.\n"
            f"{_RECORD}{record.dump(self.options, pin)}\n"
            "---\n"
        )
        body = b"".join(file.diff for file in sorted(self.files, key=lambda file: file.path))
        return paths.encode(message) + body + f"-- \nswitchml-patch {__version__}\n\n".encode()

    @functools.cached_property
    def sha256(self) -> str:
        """SHA-256 of the content in hex."""
        return hashlib.sha256(self.content).hexdigest()


def make(options: Options, pin: Pin) -> Patch:
    """Make the patch of these options for a pin. All patches are made here.

    Raises:
        PatchgenError: the pin was made with other hooks than those of the templates.
    """
    added = render.new_files(options, pin).items()
    return Patch(options, pin, (*(AddedFile(*file) for file in added), *edited_files(pin)))


def edited_files(pin: Pin) -> tuple[EditedFile, ...]:
    """Return the files of PyTorch that every patch for a pin edits in the same way.

    Raises:
        PatchgenError: the pin was made with other hooks than those of the templates.
    """
    hooks = render.pinned_hooks(pin)
    return tuple(EditedFile(file, hooks) for file in pin.files)


def read(content: bytes, pins: Sequence[Pin], name: str) -> Patch:
    """Read a patch back from the content of its file; `name` is for messages.

    Raises:
        OptionsError: the content is not, byte for byte, that of the patch which it names.
    """
    found = record.parse(content, _RECORD)
    if found is None:
        begun = content.startswith(b"From ") and _SENDER in content
        what = "is cut short; write it again" if begun else "not a patch written by switchml-patch"
        raise OptionsError(f"{name}: {what}{' with switchml-patch' if begun else ''} generate")
    pin = next((pin for pin in pins if pin.name == found.pin), None)
    if pin is None and found.options:
        raise OptionsError(
            f"{name}: made for PyTorch {found.pin}, for which there is no pin here; "
            f"known are {', '.join(pin.name for pin in pins)}; name its pin file with --pytorch"
        )
    patch = make(found.options, pin) if pin and found.options else None
    if patch is None or patch.content != content:
        damage = _find_damage(content, patch.content) if patch else ""
        if damage:
            raise OptionsError(f"{name}: {damage}; write it again with switchml-patch generate")
        made = "edited" if found.options else f"written by version {found.version}"
        raise OptionsError(
            f"{name}: {made}, so it cannot be checked; write it again with switchml-patch "
            "generate, or apply it with git apply"
        )
    return patch


def _find_damage(content: bytes, made: bytes) -> str:
    """Say what a transfer did to a patch; empty if the patch was changed in another way."""
    found = []
    if content.startswith(codecs.BOM_UTF8):
        content = content[len(codecs.BOM_UTF8) :]
        found.append("begins with a byte order mark")
    if b"\r\n" in content:
        content = content.replace(b"\r\n", b"\n")
        found.append("has CRLF line ends")
    if content != made:
        found.append("is cut short")
    return " and ".join(found) if made.startswith(content) else ""
