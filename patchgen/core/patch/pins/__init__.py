"""Pins: the commits of PyTorch that a patch can be made for.

One JSON file beside this module describes a release: where the hooks go, the anchors by which their
places are found in another release, and what building it needs.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from patchgen.errors import OptionsError, file_errors

_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
DEFAULT = "57bffc3"
_LAYOUTS = os.path.join(glob.escape(_DIRECTORY), "layouts", "*.json")
_OPTIONAL = ("recipe", "grafts")
_SHORTEST = 7  # digits of a commit prefix
OTHERWISE = (
    "make a pin from its checkout (switchml-patch pins make; for 2.8 to 2.13 with --layout "
    "torch-csrc-2.8), or use the plugin (switchml-patch plugin install)"
)
"""Advice for a PyTorch without a pin."""


class Hook(NamedTuple):
    """Hook after line `line` (from 1) of the pre-image, with up to three lines on each side."""

    name: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


class HookedFile(NamedTuple):
    """Existing file, with its blob ids without and with the hooks. Hooks are sorted by line."""

    path: str
    pre: str
    post: str
    hooks: tuple[Hook, ...]


class Anchor(NamedTuple):
    """Place of a hook in any release: between `head` and `tail`, found once in `file`."""

    name: str
    file: str
    head: str
    tail: str = ""


class Pin(NamedTuple):
    """What is needed to patch one commit of PyTorch without its source.

    The fields from `source_dir` to `cmake_source_dir` are for the templates. `hooks_sha256` is the
    digest of the rendered hooks, for which alone the post-images are valid. Releases of one
    `layout` have these fields and the anchors in common. `grafts` are other commits with the same
    process group, which is all that a graft needs. `recipe` is what `core.recipes` reads.
    """

    name: str
    version: str
    commit: str
    layout: str
    source_dir: str
    target: str
    include_prefix: str
    options_access: str
    cxx_standard: int
    cmake_indent: str
    cmake_source_dir: str
    hooks_sha256: str
    files: tuple[HookedFile, ...]
    anchors: tuple[Anchor, ...] = ()
    recipe: Mapping[str, Any] = {}
    grafts: tuple[str, ...] = ()

    @property
    def header(self) -> str:
        """Path of the header that declares the works of allreduce; empty before PyTorch 2.8."""
        return next((path for path in self.anchored if path.endswith(".hpp")), "")

    @property
    def anchored(self) -> tuple[str, ...]:
        """Paths of the files with anchors."""
        return tuple(dict.fromkeys(anchor.file for anchor in self.anchors))


def from_json(text: str) -> Pin:
    """Parse a pin. Raises KeyError, TypeError or ValueError where that fails."""
    data: dict[str, Any] = json.loads(text)
    files = tuple(
        HookedFile(
            path=file["path"],
            pre=file["pre"],
            post=file["post"],
            hooks=tuple(
                Hook(hook["name"], hook["line"], tuple(hook["before"]), tuple(hook["after"]))
                for hook in file["hooks"]
            ),
        )
        for file in data.pop("files")
    )
    anchors = tuple(Anchor(**anchor) for anchor in data.pop("anchors", ()))
    grafts = tuple(data.pop("grafts", ()))
    return Pin(files=files, anchors=anchors, grafts=grafts, **data)


def to_json(pin: Pin) -> str:
    """Serialize a pin as ASCII JSON."""
    files = [
        {**file._asdict(), "hooks": [one._asdict() for one in file.hooks]} for file in pin.files
    ]
    anchors = [anchor._asdict() for anchor in pin.anchors]
    about = {name: value for name, value in pin._asdict().items() if value or name not in _OPTIONAL}
    del about["files"]
    data = {**about, "anchors": anchors, "files": files}
    return json.dumps(data, indent=2) + "\n"


def load(path: str) -> Pin:
    """Load the pin in a file.

    Raises:
        OptionsError: the file holds no pin.
        FileError: the file cannot be read.
    """
    with file_errors(), open(path, encoding="utf-8") as file:
        try:
            return from_json(file.read())
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise OptionsError(
                f"{path}: not a pin ({error}); make one with: switchml-patch pins make"
            ) from error


def read_shipped() -> Iterator[Pin]:
    """Yield the shipped pins, oldest release first; a file is named as its pin."""
    names = [name for name in os.listdir(_DIRECTORY) if name.endswith(".json")]
    for name in sorted(names, key=lambda name: [int(part) for part in name[1:].split(".")[:-1]]):
        yield load(os.path.join(_DIRECTORY, name))


def path_of(pin: Pin) -> str:
    """Return the path of a shipped pin's file."""
    return os.path.join(_DIRECTORY, f"{pin.name}.json")


def shipped() -> tuple[Pin, ...]:
    """Return the pins that come with the package, oldest release first."""
    return tuple(read_shipped())


def serving(files: Sequence[HookedFile], pins: Iterable[Pin]) -> tuple[Pin, ...]:
    """Return the pins of these files. Releases may have them in common."""
    return tuple(pin for pin in pins if pin.files == tuple(files))


def enumerate_names(pins: Iterable[Pin], word: str) -> str:
    """Return the names of pins as "v1, v2 `word` v3"."""
    names = list(dict.fromkeys(pin.name for pin in pins))
    return f" {word} ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])


def by_layout(pins: Sequence[Pin]) -> dict[str, Pin]:
    """Return the first pin of each layout, or one without files if no release has any."""
    found = {pin.layout: pin for pin in (*map(load, glob.glob(_LAYOUTS)), *reversed(pins))}
    return dict(reversed(found.items()))


def of_layout(text: str, pins: Sequence[Pin]) -> Pin:
    """Return the first pin of a layout, or the pin in a file `*.json`, as a model.

    Raises:
        OptionsError: there is no such layout; the message lists the known ones.
    """
    if text.endswith(".json"):
        return load(text)
    known = by_layout(pins)
    if text not in known:
        raise OptionsError(f"{text}: no such layout; known are {', '.join(known)}")
    return known[text]


def find(text: str, pins: Iterable[Pin]) -> Pin:
    """Find a pin by at least 7 digits of its commit, by version, or in a file `*.json`.

    Raises:
        OptionsError: no pin matches; the message lists the known ones.
    """
    if text.endswith(".json"):
        return load(text)
    wanted = text.lower()
    others = []
    for pin in pins:
        if wanted in (pin.name.lower(), pin.version.lower(), f"v{pin.version}".lower()):
            return pin
        if len(wanted) >= _SHORTEST and pin.commit.startswith(wanted):
            return pin
        others.append(f"{pin.name} ({pin.commit[:_SHORTEST]})")
    raise OptionsError(
        f"{text!r}: no pin for this PyTorch; known by version or {_SHORTEST} digits of the commit: "
        f"{', '.join(others)};\n{OTHERWISE}"
    )
