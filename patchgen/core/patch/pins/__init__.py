"""Pins: the commits of PyTorch that a patch can be made for.

One JSON file beside this module describes a release: where the hooks go, the anchors by which their
places are found in another release, and what building it needs.
"""

from __future__ import annotations

import functools
import glob
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from patchgen.errors import OptionsError
from patchgen.system import paths, untrusted
from patchgen.templates import DIRECTORY

_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
DEFAULT = "57bffc3"
_LAYOUTS = os.path.join(glob.escape(_DIRECTORY), "layouts", "*.json")
_HOOKS = os.path.join(DIRECTORY, "patch", "hooks")
_OPTIONAL = ("recipe", "grafts")
_SHORTEST = 7  # digits of a commit prefix
_SHOWN = 40  # characters of a wrong value
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


def from_json(text: str | bytes) -> Pin:
    """Parse a pin. Raises ValueError where that fails, saying which field is wrong."""
    pin: Pin = _parse(Pin, untrusted.parse_json(text), "pin")
    _check_text(pin)
    return pin


def _parse(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401  # any field
    """Return a value of JSON as the type of a field; `where` names the field in messages."""
    if hasattr(kind, "_fields"):
        hints, members = _hints(kind), _typed(dict, value, where)
        for name in [*members, *hints.keys() - kind._field_defaults.keys()]:
            if name not in hints or name not in members:
                raise ValueError(f"{where}: {name} is {'missing' if name in hints else 'unknown'}")
        return kind(**{name: _parse(hints[name], one, name) for name, one in members.items()})
    if get_origin(kind) is tuple:
        members = _typed(list, value, where)
        return tuple(
            _parse(get_args(kind)[0], one, f"{where}[{i}]") for i, one in enumerate(members)
        )
    return _typed(dict if get_origin(kind) else kind, value, where)


_hints = functools.cache(get_type_hints)


def _typed(kind: type, value: Any, where: str) -> Any:  # noqa: ANN401  # any field
    if not isinstance(value, kind):
        shown = json.dumps(value)[:_SHOWN]
        raise ValueError(f"{where}: {shown} is not of type {kind.__name__}")  # noqa: TRY004
    return value


def _check_text(pin: Pin) -> None:
    """Refuse control characters, and paths that leave the tree."""
    for field, value in pin._asdict().items():
        if isinstance(value, str) and not value.isprintable():
            raise ValueError(f"{field}: {value!r} has control characters")
    for field, path in (
        ("source_dir", pin.source_dir),
        *(("path", file.path) for file in pin.files),
        *(("file", anchor.file) for anchor in pin.anchors),
    ):
        if os.path.normpath(path) != path or path.startswith(("/", "..")) or not path.isprintable():
            raise ValueError(f"{field}: {path!r} is no path within a tree")


def _check_names(pin: Pin) -> None:
    """Refuse anchors and hooks that the templates lack."""
    known = {name.partition(".")[0] for name in os.listdir(_HOOKS)}
    names = [anchor.name for anchor in pin.anchors]
    for name in [*names, *(hook.name for file in pin.files for hook in file.hooks)]:
        if name not in known:
            raise ValueError(f"hooks: no such hook {name!r}")


def _check_hooks(pin: Pin) -> None:
    """Refuse a pin whose files lack hooks of its anchors, as those of a shipped one may for now."""
    _check_names(pin)
    hooks = {(file.path, hook.name) for file in pin.files for hook in file.hooks}
    anchors = {(anchor.file, anchor.name) for anchor in pin.anchors}
    if not hooks:
        raise ValueError("files: there are none")
    for file, name in sorted(hooks ^ anchors if anchors else ()):
        raise ValueError(f"anchors: hook {name} of {file!r} is not in both anchors and files")


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


def load(path: str, check: Callable[[Pin], None] = _check_text) -> Pin:
    """Load the pin in a file.

    Raises:
        OptionsError: the file holds no pin, or `check` refuses it with a ValueError.
        FileError: the file cannot be read.
    """
    content = untrusted.read_file(path)
    try:
        pin = from_json(content)
        check(pin)
    except ValueError as error:
        raise OptionsError(
            f"{paths.describe(path)}: not a pin ({error}); make one with: switchml-patch pins make"
        ) from error
    return pin


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
        return load(text, _check_names)
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
        return load(text, _check_hooks)
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
