"""Reports of the commands about a patch: lines for people, JSON for scripts."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from patchgen.core.patch.patches import Patch
from patchgen.core.patch.pins import Pin, enumerate_names
from patchgen.options import FLAGS, HOMES, VARIABLES, Options
from patchgen.system import paths

if TYPE_CHECKING:  # slow to import
    from patchgen.core.patch.state import State
    from patchgen.core.patch.tree import Result


def options_data(options: Options) -> dict[str, Any]:
    """Return the options by variable name, without BUILDDIR, for JSON."""
    flags: dict[str, Any] = {flag.name: flag.name in options.flags for flag in FLAGS}
    return flags | {v.name: getattr(options, v.field) for v in VARIABLES if v.field in HOMES}


def options_line(options: Options) -> str:
    """Return the options as arguments of make, quoted for a shell, without unset flags."""
    flags = [f"{flag}=1" for flag in options.flags]
    homes = {home: getattr(options, home) for home in HOMES}
    named = [
        f"{home.upper()}={shlex.quote(paths.printable(path))}"
        for home, path in homes.items()
        if path
    ]
    return " ".join(flags + named)


def pin_data(pin: Pin) -> dict[str, Any]:
    """Return a pin for JSON, without its hooks."""
    return {
        "name": pin.name,
        "version": pin.version,
        "commit": pin.commit,
        "layout": pin.layout,
        "files": [{"path": file.path, "pre": file.pre, "post": file.post} for file in pin.files],
    }


def serving_line(pin: Pin, serving: Sequence[Pin]) -> str:
    """Return a line about shipped pins with the same hooked files as a new pin."""
    own = next((one for one in serving if one.commit == pin.commit), None)
    if own:
        return f"the shipped pin {own.name} is of this commit"
    return (
        f"the hooked files are those of {enumerate_names(serving, 'and')}: generate and apply can "
        "use that pin, but build and graft need one of this commit"
    )


def generate_data(output: str, patch: Patch, warnings: Sequence[str]) -> dict[str, Any]:
    """Return the result of `generate` for JSON."""
    return {
        "patch": output,
        "sha256": patch.sha256,
        "pin": patch.pin.name,
        "commit": patch.pin.commit,
        "options": options_data(patch.options),
        "warnings": list(warnings),
    }


def generate_lines(output: str, patch: Patch) -> Iterator[str]:
    """Yield the lines that `generate` prints."""
    name, pin = paths.printable(output), patch.pin
    yield f"{name}: {len(patch.content)} bytes, sha256 {patch.sha256}"
    yield f"for PyTorch {pin.version} ({pin.commit[:12]}), {options_line(patch.options)}"
    if output != "-":
        quoted = shlex.quote(name)
        yield f"apply it with: switchml-patch apply --patch {quoted} PYTORCH_TREE"
        yield "or, at the root of PyTorch's own git repository, with git apply"


def head_note(state: State) -> str | None:
    """Return a note if git's HEAD is not the pin, or several pins match."""
    if state.head is None or state.pin is None or state.head.commit == state.pin.commit:
        return state.tie
    if state.head.commit is None:
        return f"HEAD of the repository could not be read: {state.head.problem}"
    return (
        f"HEAD is {state.head.commit[:12]}, {state.pin.name} is {state.pin.commit[:12]}; "
        "the files that the patch touches are those of the pin"
    )


def state_data(state: State) -> dict[str, Any]:
    """Return the state of a tree for JSON."""
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
    """Yield a line about the state of a tree, and one for each file to look at."""
    from patchgen.core.patch.state import (  # slow to import, and `generate` does without
        OTHER_TOOL,
        FileKind,
        Overall,
        explain,
    )

    names = [f"{pin.name} ({pin.commit[:12]})" for pin in (state.pin, *state.tied) if pin]
    what = f"patched by switchml-patch {state.version}" if state.version else state.overall.value
    yield " ".join([f"{paths.printable(state.root)}: {what}", *filter(None, [" or ".join(names)])])
    if state.options:
        made_for = (
            f"for {state.made_for} " if state.pin and state.made_for != state.pin.name else ""
        )
        yield f"  patched {made_for}with {options_line(state.options)}"
    if state.overall is Overall.PARTLY:
        words = {
            FileKind.PRE: "without its hooks", FileKind.POST: "with its hooks",
            FileKind.OURS: "added", FileKind.ABSENT: "not added",
        }  # fmt: skip
        kinds = Counter(words.get(file.kind, file.kind.value) for file in state.files)
        yield "  files: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        for path in state.leftovers[:1]:
            yield f"  {len(state.leftovers)} left over from a run that was stopped, as {path}"
        yield "  undo it with switchml-patch revert, or complete it with switchml-patch apply"
    if state.overall is Overall.EDITED:
        yield from (f"  {line}" for line in explain(state.wrong))
    if state.overall is Overall.OTHER_TOOL:
        yield f"  {OTHER_TOOL}"
    if state.overall in (Overall.OTHER, Overall.NOT_PYTORCH):
        present = [file for file in state.hooked if file.kind is not FileKind.ABSENT]
        yield from (f"  {line}" for line in explain(present))
        yield "  supported commits: switchml-patch pins"
    note = head_note(state)
    if note:
        yield f"  note: {note}"


def result_lines(result: Result, done: str, options: Options | None = None) -> Iterator[str]:
    """Yield the result of `apply` or `revert`, with a note if the options changed."""
    root = paths.printable(result.before.root)
    if options and result.before.options not in {None, options}:
        yield f"  was patched with {options_line(result.before.options)}"
        yield f"  now it is with   {options_line(options)}"
    if result.changed:
        yield from (f"  {path}" for path in result.changed)
        count = len(result.changed)
        yield f"{root}: {done} ({result.pin.name}), {count} file{'s' if count > 1 else ''}"
    else:
        yield f"{root}: already {done} ({result.pin.name}); nothing to do"
    note = head_note(result.before)
    if note:
        yield f"  note: {note}"
