"""Reports of the commands about a patch: lines for people, plain data for scripts."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from patchgen.core.patch.pins import Pin
from patchgen.options import FLAGS, HOMES, VARIABLES, Options
from patchgen.system import paths

if TYPE_CHECKING:  # with them generate imports git's classes
    from patchgen.core.patch.state import State
    from patchgen.core.patch.tree import Result


def options_data(options: Options) -> dict[str, Any]:
    """The options by variable name, without BUILDDIR."""
    flags: dict[str, Any] = {flag.name: flag.name in options.flags for flag in FLAGS}
    return flags | {v.name: getattr(options, v.field) for v in VARIABLES if v.field in HOMES}


def options_line(options: Options) -> str:
    """The options as one writes them for make, in a shell; flags that are off are left out."""
    flags = [f"{flag}=1" for flag in options.flags]
    homes = {home: getattr(options, home) for home in HOMES}
    named = [
        f"{home.upper()}={shlex.quote(paths.printable(path))}"
        for home, path in homes.items()
        if path
    ]
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
    """Result of generate, for scripts."""
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
    """Result of generate, for people."""
    name = paths.printable(output)
    yield f"{name}: {size} bytes, sha256 {digest}"
    yield f"for PyTorch {pin.version} ({pin.commit[:12]}), {options_line(options)}"
    if output != "-":
        quoted = shlex.quote(name)
        yield f"apply it with: switchml-patch apply --patch {quoted} PYTORCH_TREE"
        yield "or, at the root of PyTorch's own git repository, with git apply"


def head_note(state: State) -> str | None:
    """Note where git's HEAD is not the pin; the files decide, so it is never an error."""
    if state.head is None or state.pin is None or state.head.commit == state.pin.commit:
        return None
    if state.head.commit is None:
        return f"HEAD of the repository could not be read: {state.head.problem}"
    return (
        f"HEAD is {state.head.commit[:12]}, {state.pin.name} is {state.pin.commit[:12]}; "
        "the files that the patch touches are those of the pin"
    )


def state_data(state: State) -> dict[str, Any]:
    """A state for scripts."""
    return {
        "tree": state.root,
        "state": state.overall.value,
        "pin": state.pin.name if state.pin else None,
        "commit": state.pin.commit if state.pin else None,
        "head": state.head.commit if state.head else None,
        "options": options_data(state.options) if state.options else None,
        "files": [
            {
                "path": file.path,
                "state": file.kind.value,
                "found": file.found,
                "expected": file.expected,
            }
            for file in state.files
        ],
        "leftovers": list(state.leftovers),
        "note": head_note(state),
    }


def state_lines(state: State) -> Iterator[str]:
    """A state for people: one line, then one for each file that needs attention."""
    from patchgen.core.patch.state import (  # imports git, and generate is quick
        FileKind,
        Overall,
        explain,
    )

    of = f" {state.pin.name} ({state.pin.commit[:12]})" if state.pin else ""
    yield f"{paths.printable(state.root)}: {state.overall.value}{of}"
    if state.options:
        yield f"  patched with {options_line(state.options)}"
    if state.overall is Overall.PARTLY:
        kinds = Counter(file.kind.value for file in state.files)
        yield "  files: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        for path in state.leftovers[:1]:
            yield f"  {len(state.leftovers)} left over from a run that was stopped, as {path}"
        yield "  undo it with switchml-patch revert, or complete it with switchml-patch apply"
    if state.overall is Overall.EDITED:
        yield from (f"  {explain(file)}" for file in state.wrong)
    if state.overall in (Overall.OTHER, Overall.NOT_PYTORCH):
        present = [file for file in state.hooked if file.kind is not FileKind.ABSENT]
        yield from (f"  {explain(file)}" for file in present)
        yield "  supported commits: switchml-patch pins"
    note = head_note(state)
    if note:
        yield f"  note: {note}"


def result_lines(result: Result, done: str, options: Options | None = None) -> Iterator[str]:
    """Lines about the result of apply or revert, and which of the tree's options are others now."""
    root = paths.printable(result.before.root)
    if options and result.before.options not in {None, options}:
        yield f"  was patched with {options_line(result.before.options)}"
        yield f"  now it is with   {options_line(options)}"
    if result.changed:
        yield from (f"  {path}" for path in result.changed)
        yield f"{root}: {done} ({result.pin.name}), {len(result.changed)} files"
    else:
        yield f"{root}: already {done} ({result.pin.name}); nothing to do"
    note = head_note(result.before)
    if note:
        yield f"  note: {note}"
