"""What generate and pins tell: lines for people, and plain data for scripts. Prints nothing."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from patchgen.options import HOMES, VARIABLES
from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchgen.options import Options
    from patchgen.patch.pins import Pin


def options_data(options: Options) -> dict[str, Any]:
    """The options by variable name, without BUILDDIR."""
    return {v.name: getattr(options, v.field) for v in VARIABLES if v.boolean or v.field in HOMES}


def options_line(options: Options) -> str:
    """The options as one would write them for make; flags that are off are left out."""
    flags = [f"{flag}=1" for flag in options.flags]
    homes = {home: getattr(options, home) for home in HOMES}
    named = [f"{home.upper()}={paths.printable(path)}" for home, path in homes.items() if path]
    return " ".join(flags + named)


def pin_data(pin: Pin) -> dict[str, Any]:
    """A pin for scripts."""
    return {
        "name": pin.name,
        "version": pin.version,
        "commit": pin.commit,
        "layout": pin.layout,
        "files": [{"path": file.path, "pre": file.pre, "post": file.post} for file in pin.files],
    }


def pin_line(pin: Pin) -> str:
    """A pin for people."""
    return f"{pin.name}  {pin.commit}  {', '.join(file.path for file in pin.files)}"


def generate_data(
    output: str, digest: str, pin: Pin, options: Options, warnings: Sequence[str]
) -> dict[str, Any]:
    """What generate did, for scripts."""
    return {
        "patch": output,
        "sha256": digest,
        "pin": pin.name,
        "commit": pin.commit,
        "options": options_data(options),
        "warnings": list(warnings),
    }


def generate_lines(
    output: str, size: int, digest: str, pin: Pin, options: Options
) -> Iterator[str]:
    """What generate did, for people."""
    name = paths.printable(output)
    yield f"{name}: {size} bytes, sha256 {digest}"
    yield f"for PyTorch {pin.version} ({pin.commit[:12]}), {options_line(options)}"
    if output != "-":
        quoted = shlex.quote(name)
        yield f"apply it with: switchml-patch apply --patch {quoted} PYTORCH_TREE"
        yield "or, at the root of PyTorch's own git repository, with git apply"
