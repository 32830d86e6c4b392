"""Where the hooks go in a family of PyTorch releases. For maintainers, who make pins from it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from patchgen.errors import OptionsError

_FILE = os.path.join(os.path.dirname(__file__), "layouts.json")


@dataclass(frozen=True)
class Anchor:
    """Hook `name` goes into `file` between `head` and `tail`, which occur there once, adjacent."""

    name: str
    file: str
    head: str
    tail: str = ""


@dataclass(frozen=True)
class Layout:
    """What the releases of a family have in common. The fields are those of a pin."""

    name: str
    source_dir: str
    target: str
    include_prefix: str
    options_access: str
    cmake_indent: str
    cmake_source_dir: str
    anchors: tuple[Anchor, ...]


def load() -> dict[str, Layout]:
    """All layouts by name."""
    with open(_FILE, encoding="utf-8") as file:
        data = json.load(file)
    return {
        name: Layout(
            name=name,
            anchors=tuple(Anchor(**anchor) for anchor in fields.pop("anchors")),
            **fields,
        )
        for name, fields in data.items()
    }


def find(name: str) -> Layout:
    """The layout of that name.

    Raises:
        OptionsError: there is none.
    """
    layouts = load()
    if name not in layouts:
        raise OptionsError(f"{name}: no such layout; known are {', '.join(sorted(layouts))}")
    return layouts[name]
