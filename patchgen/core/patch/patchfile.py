"""The patch: the same bytes for the same options and pin, on every machine."""

from __future__ import annotations

from collections.abc import Sequence

from patchgen import __version__
from patchgen.core.patch import diff, record, render
from patchgen.core.patch.pins import Pin
from patchgen.errors import OptionsError
from patchgen.options import Options
from patchgen.system import paths

# The date that `git format-patch` itself writes where a date has no meaning.
_DATE = "Mon, 17 Sep 2001 00:00:00 +0000"
_RECORD = "switchml-patch: "


def build(options: Options, pin: Pin) -> bytes:
    """Build the patch in the mail format of `git format-patch`, with full blob ids.

    Raises:
        PatchgenError: the pin was made with other hooks than those of the templates.
    """
    texts, new = render.pinned_hooks(pin), render.new_files(options, pin)
    diffs = {file.path: diff.modified(file, texts) for file in pin.files}
    diffs |= {path: diff.added(path, content) for path, content in new.items()}
    flags = " ".join(options.flags) or "no flags"
    message = (
        f"From {pin.commit} Mon Sep 17 00:00:00 2001\n"
        "From: switchml-patch <switchml-patch@localhost>\n"
        f"Date: {_DATE}\n"
        f"Subject: [PATCH] Delegate Gloo's allreduce to SwitchML ({flags})\n"
        "\n"
        f"For PyTorch {pin.version}, commit {pin.commit}.\n"
        f"{_RECORD}{record.dump(options, pin)}\n"
        "---\n"
    )
    body = b"".join(diffs[path] for path in sorted(diffs))
    return paths.encode(message) + body + f"-- \nswitchml-patch {__version__}\n\n".encode()


def read(content: bytes, pins: Sequence[Pin], name: str) -> tuple[Options, Pin]:
    """Read the options and the pin from which `build` made a patch; `name` is for messages.

    Raises:
        OptionsError: the content is not, byte for byte, what `build` makes.
    """
    found = record.parse(content, _RECORD)
    if found is None:
        raise OptionsError(f"{name}: not a patch written by switchml-patch generate")
    pin = next((pin for pin in pins if pin.name == found.pin), None)
    if pin is None and found.options:
        raise OptionsError(
            f"{name}: made for PyTorch {found.pin}, for which there is no pin here; "
            f"known are {', '.join(pin.name for pin in pins)}"
        )
    if pin is None or found.options is None or build(found.options, pin) != content:
        made = "edited" if found.options else f"written by version {found.version}"
        raise OptionsError(
            f"{name}: {made}, so it cannot be checked; write it again with switchml-patch "
            "generate, or apply it with git apply"
        )
    return found.options, pin
