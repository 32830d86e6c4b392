"""Diffs in git's format, made from a pin alone: no file of PyTorch is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from patchgen.core.patch.images import lines_of
from patchgen.core.patch.pins import Hook, HookedFile
from patchgen.system import paths
from patchgen.system.git_objects import ABSENT, blob_id

_MODE = "100644"
_CONTEXT = 3  # lines around a change
_MERGE = 2 * _CONTEXT  # changes with at most so many lines between them share a hunk


def added(path: str, content: bytes) -> bytes:
    """Return the diff that creates a file."""
    lines = lines_of(content)
    head = (
        f"diff --git a/{path} b/{path}\nnew file mode {_MODE}\n"
        f"index {ABSENT}..{blob_id(content)}\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +{_span(1, len(lines))} @@\n"
    )
    return paths.encode(head) + _mark(b"+", lines)


def between(path: str, before: bytes | None, after: bytes) -> bytes:
    """Return the diff from one content, or from no file (None), to another; empty if equal."""
    import difflib  # slow to import, and `modified` does without

    if before is None:
        return added(path, after)
    if before == after:
        return b""
    head = (
        f"diff --git a/{path} b/{path}\nindex {blob_id(before)}..{blob_id(after)} {_MODE}\n"
        f"--- a/{path}\n+++ b/{path}\n"
    )
    old, new = lines_of(before), lines_of(after)
    body = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes():
        first, last = group[0], group[-1]
        spans = (_span(first[1] + 1, last[2] - first[1]), _span(first[3] + 1, last[4] - first[3]))
        body.append(f"@@ -{spans[0]} +{spans[1]} @@\n".encode())
        for what, begin, end, new_begin, new_end in group:
            if what == "equal":
                body.append(_mark(b" ", old[begin:end]))
            else:
                body += [_mark(b"-", old[begin:end]), _mark(b"+", new[new_begin:new_end])]
    return paths.encode(head) + b"".join(body)


def _mark(sign: bytes, lines: Sequence[bytes]) -> bytes:
    text = sign.join((b"", *lines))
    return text if not lines or text.endswith(b"\n") else text + b"\n\\ No newline at end of file\n"


def modified(file: HookedFile, texts: Mapping[str, bytes]) -> bytes:
    """Return the diff that inserts the hooks into an existing file."""
    head = (
        f"diff --git a/{file.path} b/{file.path}\nindex {file.pre}..{file.post} {_MODE}\n"
        f"--- a/{file.path}\n+++ b/{file.path}\n"
    )
    hunks = []
    shift = 0
    for group in _groups(file.hooks):
        hunk, inserted = _hunk(group, texts, shift)
        hunks.append(hunk)
        shift += inserted
    return paths.encode(head) + b"".join(hunks)


def _groups(hooks: Sequence[Hook]) -> Iterator[list[Hook]]:
    group: list[Hook] = []
    for hook in hooks:
        if group and hook.line - group[-1].line > _MERGE:
            yield group
            group = []
        group.append(hook)
    yield group


def _hunk(hooks: Sequence[Hook], texts: Mapping[str, bytes], shift: int) -> tuple[bytes, int]:
    """Return a hunk, and the number of lines that it inserts."""
    known: dict[int, str] = {}
    for hook in hooks:
        known.update(enumerate(hook.before, hook.line - len(hook.before) + 1))
        known.update(enumerate(hook.after, hook.line + 1))
    insertions = {hook.line: lines_of(texts[hook.name]) for hook in hooks}
    start = min(known)
    body = []
    for line in sorted(known):
        body.append(b" " + paths.encode(known[line]) + b"\n")
        body += [b"+" + text for text in insertions.get(line, ())]
    inserted = sum(map(len, insertions.values()))
    spans = f"-{_span(start, len(known))} +{_span(start + shift, len(known) + inserted)}"
    return f"@@ {spans} @@\n".encode() + b"".join(body), inserted


def _span(start: int, count: int) -> str:
    return str(start) if count == 1 else f"{start},{count}"
