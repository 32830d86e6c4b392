"""Where the hooks go in a family of PyTorch releases. For maintainers, who make pins from it."""

from __future__ import annotations

import json
import os
import posixpath
from dataclasses import dataclass
from typing import Any

from patchgen.errors import OptionsError

_FILE = os.path.join(os.path.dirname(__file__), "layouts.json")
_HOOKED = "ProcessGroupGloo.cpp"


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
    cxx_standard: int
    cmake_indent: str
    cmake_source_dir: str
    anchors: tuple[Anchor, ...]


def load() -> dict[str, Layout]:
    """All layouts by name."""
    with open(_FILE, encoding="utf-8") as file:
        return resolve(json.load(file))


def resolve(data: dict[str, dict[str, Any]]) -> dict[str, Layout]:
    """The layouts of a JSON object.

    A layout that is `like` an earlier one has its fields and anchors, but for those it gives
    itself. An anchor without a file is in the process group's source.

    Raises:
        OptionsError: a layout is like one that does not stand before it.
    """
    whole: dict[str, dict[str, Any]] = {}
    for name, fields in data.items():
        own = dict(fields)
        like = own.pop("like", None)
        if like is not None and like not in whole:
            raise OptionsError(f"layout {name} is like {like}, which does not stand before it")
        base = whole[like] if like is not None else {"anchors": {}}
        anchors = {
            **base["anchors"],
            **{
                hook: {**base["anchors"].get(hook, {}), **anchor}
                for hook, anchor in own.get("anchors", {}).items()
            },
        }
        whole[name] = {**base, **own, "anchors": anchors}
    return {name: _layout(name, fields) for name, fields in whole.items()}


def _layout(name: str, fields: dict[str, Any]) -> Layout:
    hooked = posixpath.join(fields["source_dir"], _HOOKED)
    anchors = tuple(
        Anchor(**{"name": hook, "file": hooked, **anchor})
        for hook, anchor in fields["anchors"].items()
    )
    return Layout(**{**fields, "name": name, "anchors": anchors})


def find(name: str) -> Layout:
    """The layout of that name.

    Raises:
        OptionsError: there is none.
    """
    layouts = load()
    if name not in layouts:
        raise OptionsError(f"{name}: no such layout; known are {', '.join(layouts)}")
    return layouts[name]
