"""The PyTorch commits that a patch can be made for.

All that is known of a release is in one JSON file beside this module: where the hooks go, how the
next release of its kind is looked for, and what building it needs.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from patchgen.core.patch.recipes import Recipe
from patchgen.errors import OptionsError, file_errors

_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
DEFAULT = "57bffc3"
_LAYOUTS = os.path.join(glob.escape(_DIRECTORY), "layouts", "*.json")
_SHORTEST = 7  # digits of a commit prefix
OTHERWISE = (
    "make a pin from its checkout (switchml-patch pins make; for 2.8 to 2.13 with --layout "
    "torch-csrc-2.8), or use the plugin (switchml-patch plugin install)"
)
"""Advice for a PyTorch without a pin."""


class Hook(NamedTuple):
    """A place in the pre-image: after line `line` (from 1), with up to three lines around it."""

    name: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


class HookedFile(NamedTuple):
    """An existing file and its blob ids without and with the hooks. Hooks are in order of lines."""

    path: str
    pre: str
    post: str
    hooks: tuple[Hook, ...]


class Anchor(NamedTuple):
    """Hook `name` goes into `file` between `head` and `tail`, which occur there once, adjacent."""

    name: str
    file: str
    head: str
    tail: str = ""


class Pin(NamedTuple):
    """Data to patch one commit of PyTorch with no PyTorch at hand.

    The fields from `source_dir` on are for the templates. `hooks_sha256` is over the rendered
    hooks: the post-images hold for these texts only. `layout` names the releases that have the
    fields of LAYOUT in common. `grafts` are other commits with the same process group: a graft
    needs no other file of the pin.
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
    recipe: Recipe = Recipe()
    grafts: tuple[str, ...] = ()

    @property
    def header(self) -> str:
        """Path of the header that the works of allreduce are in; empty before PyTorch 2.8."""
        return next((path for path in self.anchored if path.endswith(".hpp")), "")

    @property
    def anchored(self) -> tuple[str, ...]:
        """Paths of the files that the anchors are in."""
        return tuple(dict.fromkeys(anchor.file for anchor in self.anchors))


LAYOUT = (
    "layout",
    "source_dir",
    "target",
    "include_prefix",
    "options_access",
    "cxx_standard",
    "cmake_indent",
    "cmake_source_dir",
    "anchors",
)


def from_json(text: str) -> Pin:
    """A pin from its JSON form. Raises KeyError, TypeError or ValueError on another form."""
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
    recipe = Recipe(**data.pop("recipe", {}))
    grafts = tuple(data.pop("grafts", ()))
    return Pin(files=files, anchors=anchors, recipe=recipe, grafts=grafts, **data)


def to_json(pin: Pin) -> str:
    """The JSON form, in ASCII."""
    files = [
        {**file._asdict(), "hooks": [one._asdict() for one in file.hooks]} for file in pin.files
    ]
    anchors = [anchor._asdict() for anchor in pin.anchors]
    about = {name: value for name, value in pin._asdict().items() if value or name != "grafts"}
    del about["files"]
    data = {**about, "anchors": anchors, "recipe": pin.recipe._asdict(), "files": files}
    return json.dumps(data, indent=2) + "\n"


def load(path: str) -> Pin:
    """The pin in a file.

    Raises:
        OptionsError: it holds no pin.
        FileError: it cannot be read.
    """
    with file_errors(), open(path, encoding="utf-8") as file:
        try:
            return from_json(file.read())
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise OptionsError(
                f"{path}: not a pin ({error}); make one with: switchml-patch pins make"
            ) from error


def read_shipped() -> Iterator[Pin]:
    """Reads the pins that come with the package from files of their names, oldest release first."""
    names = [name for name in os.listdir(_DIRECTORY) if name.endswith(".json")]
    for name in sorted(names, key=lambda name: [int(part) for part in name[1:].split(".")[:-1]]):
        yield load(os.path.join(_DIRECTORY, name))


def path_of(pin: Pin) -> str:
    """Path of the file of a shipped pin."""
    return os.path.join(_DIRECTORY, f"{pin.name}.json")


def shipped() -> tuple[Pin, ...]:
    """The pins that come with the package, oldest release first."""
    return tuple(read_shipped())


def by_layout(pins: Sequence[Pin]) -> dict[str, Pin]:
    """The first pin of each layout; one without files where no release has a pin yet."""
    found = {pin.layout: pin for pin in (*map(load, glob.glob(_LAYOUTS)), *reversed(pins))}
    return dict(reversed(found.items()))


def of_layout(text: str, pins: Sequence[Pin]) -> Pin:
    """The first pin of a layout, or the one in a file `*.json`, to make another like it.

    Raises:
        OptionsError: there is none; the message lists the known ones.
    """
    if text.endswith(".json"):
        return load(text)
    known = by_layout(pins)
    if text not in known:
        raise OptionsError(f"{text}: no such layout; known are {', '.join(known)}")
    return known[text]


def find(text: str, pins: Iterable[Pin]) -> Pin:
    """The first pin of a commit prefix (7 digits or more), of a version, or in a file `*.json`.

    Raises:
        OptionsError: there is none; the message lists the known ones.
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
