"""Makes pins from the files of a commit: new pins, and the shipped ones anew."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from patchgen.core.patch import images, render
from patchgen.core.patch.pins import Anchor, Hook, HookedFile, Pin, by_layout, shipped
from patchgen.core.patch.state import resolve
from patchgen.errors import FileError, OptionsError, TreeError
from patchgen.system import git, paths, untrusted
from patchgen.system.git_objects import blob_id

_CONTEXT = 3
_IN_CONSTRUCTOR = "join"  # the hook that reads the options of the process group
_CONSTRUCTOR = re.compile(r"^ProcessGroupGloo::ProcessGroupGloo\(", re.MULTILINE)
_COMMENT = re.compile(r"//.*|/\*(?s:.*?)\*/")
_READ = re.compile(r"\b(?P<name>\w+)\s*(?P<access>\.|->)\s*(?:devices|timeout)\b")
_INITIALIZER = re.compile(
    r"[:,]\s*(?P<member>\w+)\s*[({]\s*(?P<moved>std::move\(\s*)?(?P<name>\w+)\s*[)}]"
)
_VERSION = "version.txt"


def check_commit(tree: str, commit: str) -> None:
    """Check that a tree is a checkout of a commit.

    Raises:
        OptionsError: `commit` is not a full id.
        TreeError: git's HEAD in the tree is another commit, or the tree has none.
    """
    _check_full(commit)
    shown, head = paths.printable(resolve(tree)), git.head(tree)
    if head is None:
        raise TreeError(
            f"{shown}: its commit cannot be checked, because it is not the top of a git "
            "repository; clone PyTorch with git"
        )
    if head.commit is None:
        raise TreeError(f"{shown}: its commit cannot be checked: {head.problem}")
    if head.commit != commit:
        raise TreeError(f"{shown}: HEAD is {head.commit}, not {commit}")


def _check_full(commit: str) -> None:
    if not re.fullmatch("[0-9a-f]{40}", commit):
        raise OptionsError(f"{commit}: give the full commit id, 40 hexadecimal digits")


def make(tree: str, like: Pin, name: str, commit: str) -> Pin:
    """Make a pin of a tree, with hooks where the anchors of another pin match.

    The tree is an unpatched checkout of the commit. `like` has the same layout, and its recipe is
    not copied.

    Raises:
        OptionsError: `commit` is not a full id.
        TreeError: the tree is of another layout or version, an anchor does not match once, or
            the constructor reads its options otherwise.
        FileError: a file cannot be read.
    """
    _check_full(commit)
    version = name.removeprefix("v")
    draft = like._replace(name=name, version=version, commit=commit, recipe={}, grafts=())
    contents = {}
    for path in (*draft.anchored, _VERSION):
        place = paths.encode(os.path.join(tree, path))
        if not os.path.lexists(place):
            raise TreeError(
                f"{paths.printable(tree)}: no checkout of PyTorch for the layout {like.layout}: it "
                f"has no {path}"
            )
        contents[path] = untrusted.read_file(place)
    # Up to 1.13 the third number in this file is that of the branch, not of the release.
    found, named = (
        re.match(r"\d+\.\d+", text)
        for text in (contents[_VERSION].decode(errors="replace"), version)
    )
    if found and named and found.group() != named.group():
        raise TreeError(
            f"{paths.printable(tree)}: {_VERSION} says {found.group()}, not {named.group()}"
        )
    return remake(draft, contents)


def remake(pin: Pin, contents: Mapping[str, bytes]) -> Pin:
    """Make a pin anew from the current templates and the contents of its anchored files.

    Raises:
        TreeError: anchors do not match exactly once; each is shown with the lines around it. Or
            the constructor reads its options otherwise than the hooks would.
        FileError: a line does not end with a line feed alone.
    """
    drifted: list[str] = []
    files = tuple(
        HookedFile(path, blob_id(contents[path]), "", _hooks(path, contents[path], pin, drifted))
        for path in pin.anchored
    )
    if drifted:
        raise TreeError("\n".join(drifted))
    _check_options(pin, contents, files)
    draft = pin._replace(files=files)
    texts = render.hooks(draft)
    return draft._replace(
        hooks_sha256=render.hooks_digest(texts),
        files=tuple(
            file._replace(post=blob_id(images.post_image(file, contents[file.path], texts)))
            for file in files
        ),
    )


def _hooks(path: str, content: bytes, pin: Pin, drifted: list[str]) -> tuple[Hook, ...]:
    """Return the hooks of a file, by line; append problems of anchors to `drifted`."""
    if not content.endswith(b"\n") or b"\r" in content:
        raise FileError(f"{path}: its lines must all end with a line feed")
    lines = [paths.decode(line[:-1]) for line in images.lines_of(content)]
    before = {(file.path, hook.name): hook for file in pin.files for hook in file.hooks}
    hooks = []
    for anchor in pin.anchors:
        if anchor.file != path:
            continue
        found = _places(content, anchor)
        if len(found) == 1:
            (line,) = found
            around = (lines[max(0, line - _CONTEXT) : line], lines[line : line + _CONTEXT])
            hooks.append(Hook(anchor.name, line, *map(tuple, around)))
        else:
            drifted += _drift(anchor, before.get((path, anchor.name)), lines, found)
    return tuple(sorted(hooks, key=lambda hook: hook.line))


def _check_options(pin: Pin, contents: Mapping[str, bytes], files: Sequence[HookedFile]) -> None:
    """Check that the constructor can read its options as the hook in it does."""
    for file in files:
        for hook in file.hooks:
            if hook.name != _IN_CONSTRUCTOR:
                continue
            lines = images.lines_of(contents[file.path])[: hook.line]
            accesses = find_accesses(b"".join(lines).decode(errors="replace"))
            if pin.options_access not in accesses:
                read = " or ".join(sorted(accesses)) or "none that can be found"
                fitting = [
                    name
                    for name, one in by_layout(shipped()).items()
                    if one.options_access in accesses and one.anchored == pin.anchored
                ]
                raise TreeError(
                    f"{file.path}: the constructor before line {hook.line} reads its options as "
                    f"{read}, but the layout {pin.layout} as {pin.options_access};\ntake --layout "
                    + " or ".join([*fitting, "a pin file with another options_access"])
                )


def find_accesses(text: str) -> set[str]:
    """Return how the last constructor of the process group in a text can read its options.

    Each is a prefix of a member, such as `options->`. The constructor reads with it itself, or
    initializes this member of the group with the options.
    """
    _, *constructors = _CONSTRUCTOR.split(_COMMENT.sub("", text))
    body = constructors[-1] if constructors else ""
    initialized = list(_INITIALIZER.finditer(body))
    moved = {match["name"] for match in initialized if match["moved"]}
    read = {(match["name"], match["access"]) for match in _READ.finditer(body)}
    members = {
        (match["member"], access)
        for match in initialized
        for name, access in read
        if name == match["name"]
    }
    return {name + access for name, access in read | members if name not in moved}


def _places(content: bytes, anchor: Anchor) -> list[int]:
    """Return the numbers of the lines at which the anchor's head ends."""
    text = re.escape(paths.encode(anchor.head + anchor.tail))
    # An anchor consists of whole lines. The lookahead also finds overlapping matches.
    starts = [match.start() for match in re.finditer(b"(?m)^(?=%s)" % text, content)]
    return [content.count(b"\n", 0, start) + anchor.head.count("\n") for start in starts]


def _drift(
    anchor: Anchor, hook: Hook | None, lines: Sequence[str], found: Sequence[int]
) -> Iterator[str]:
    """Explain an anchor that does not match once: its surroundings in the pin, and now."""
    yield f"{anchor.file}: the anchor of hook {anchor.name} matches {len(found)} times, not once"
    if hook is None:
        return
    before = (*hook.before, *hook.after)
    first = hook.line - len(hook.before)
    yield from _numbered("before", before, first)
    matcher = SequenceMatcher(b=before, autojunk=False)

    def likeness(start: int) -> tuple[float, int]:
        matcher.set_seq1(lines[start : start + len(before)])
        return matcher.ratio(), -abs(start - first)

    nearest = max(range(len(lines)), key=likeness)
    for start in [line - len(hook.before) for line in found] or [nearest]:
        begin = max(0, start - _CONTEXT)
        yield from _numbered("now", lines[begin : start + len(before) + _CONTEXT], begin)


def _numbered(when: str, lines: Sequence[str], first: int) -> Iterator[str]:
    yield f"  {when}:"
    yield from (f"    {number:>5}  {line}" for number, line in enumerate(lines, first + 1))
