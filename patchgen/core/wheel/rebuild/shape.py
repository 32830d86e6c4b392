"""Shape of a provenance: the values that a rebuild reads, by kind."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from patchgen.core.library import origin
from patchgen.core.wheel import provenance
from patchgen.errors import OptionsError
from patchgen.extras.install import plugin
from patchgen.extras.install.graft import provenance as grafts
from patchgen.extras.lab.client import checkout
from patchgen.options import HOMES, check_flags
from patchgen.system import statement
from patchgen.system.native import tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.system.statement import Provenance

_TEXT, _TEXTS, _PAIRS, _TRUTH, _CHOICE = "text", "texts", "pairs", "truth", "choice"
_LISTED, _PAIRED = "texts, or nothing", "pairs, or nothing"
_TOOLS = {"resolved.toolchain.compiler": _TEXT, "resolved.toolchain.programs": _PAIRS,
          "resolved.toolchain.programs.c++": _TEXT, "request.variables": _PAIRS}  # fmt: skip
_OPTIONS = {"request.flags": _TEXTS, "request.homes": _PAIRS}
_PIN = {"request.pin.name": _TEXT, "request.pin.commit": _TEXT}
_HOME = {"request.homes.SWITCHML_HOME": _TEXT}
_TORCH = {f"resolved.torch.{name}": _TEXT for name in
          ("python", "version", "commit", "root", "python_version")}  # fmt: skip
_PYTHON = {
    **{f"resolved.toolchain.{name}": _TEXT for name in ("python", "python_version", "soabi")},
    "resolved.toolchain.packages": _PAIRS,
}
_ANY = {"request.flags": _LISTED, "request.homes": _PAIRED}
_SHAPES: Mapping[str, Mapping[str, str]] = {
    origin.CLIENT: {
        **_TOOLS, **_OPTIONS, "request.mends": _TEXTS, "request.cxx11_abi": _CHOICE,
    },
    origin.SIMULATOR: {
        **_TOOLS, "request.debug": _TRUTH, "request.cxxflags": _TEXT,
    },
    plugin.KIND: {**_TOOLS, **_OPTIONS, **_HOME, **_TORCH, "request.bundle": _TRUTH},
    grafts.KIND: {**_TOOLS, **_OPTIONS, **_HOME, **_TORCH, **_PIN},
    provenance.KIND: {
        **_TOOLS, **_OPTIONS, **_HOME, **_PYTHON, **_PIN, "resolved.buildPath": _TEXT,
        "request.accepted": _LISTED, "request.without": _LISTED,
    },
}  # fmt: skip
_COMMITS = {
    origin.CLIENT: checkout.NAME,
    grafts.KIND: provenance.SOURCE,
    provenance.KIND: provenance.SOURCE,
}
_HOMES = {name.upper() for name in HOMES}
# What no path and no argument can have, and what terminals take for commands.
_UNUSABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udc7f\udd00-\udfff]")


def check_shape(record: str, made: Provenance) -> None:
    """Refuses a provenance that lacks a value, or has another one in its place.

    Args:
        record: its path, for the message.
        made: the provenance, of a kind that can be made again.

    Raises:
        OptionsError: with the name of the value.
    """
    try:
        wrong = next(_find_wrong(made), None)
    except RecursionError:
        wrong = "depth"
    if wrong is not None:
        raise OptionsError(f"{record}: has no usable {wrong}; give the file as it was written")


def _find_wrong(made: Provenance) -> Iterator[str]:
    """Names of the values that cannot be used."""
    values = {
        "request": made.request,
        "resolved": made.resolved,
        "builder": made.builder,
        "subject": [one.name for one in made.subjects],
        "resolvedDependencies": [one["name"] for one in made.materials],
    }
    yield from (name for name, text in _list_texts("", values) if _UNUSABLE.search(text))
    for one in made.subjects:
        if not one.name or os.path.isabs(one.name) or ".." in one.name.split("/"):
            yield "subject"
    for name, shape in {**_ANY, **_SHAPES[made.kind]}.items():
        if not _is(shape, _look_up(values, name)):
            yield name
    yield from _find_foreign(made)
    if "client" not in made.resolved:
        return
    try:
        client = statement.parse(made.resolved["client"])
    except statement.UNREADABLE:
        yield "resolved.client"
        return
    if client.kind in {origin.CLIENT, origin.SIMULATOR}:
        yield from (f"resolved.client: {wrong}" for wrong in _find_wrong(client))
    else:
        yield "resolved.client"


def _find_foreign(made: Provenance) -> Iterator[str]:
    """Names of values of the right shape that no file of the kind has."""
    if made.kind in _COMMITS and made.find_digest(_COMMITS[made.kind]) is None:
        yield f"resolvedDependencies.{_COMMITS[made.kind]}"
    if not {*made.request.get("homes", {})} <= _HOMES:
        yield "request.homes"
    # A wheel of PyTorch has what --set has named, which `build` refuses itself.
    if made.kind != provenance.KIND and not all(map(tools.is_read, made.request["variables"])):
        yield "request.variables"
    try:
        check_flags(made.request.get("flags", ()))
    except OptionsError:
        yield "request.flags"


def _list_texts(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Lists the texts of a value, keys too, each with the name of what has it."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield name, key
            yield from _list_texts(f"{name}.{key}".lstrip("."), one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _list_texts(name, one)
    elif isinstance(value, str):
        yield name, value


def _look_up(values: Any, name: str) -> object:  # noqa: ANN401  # as in JSON
    for part in name.split("."):
        if not isinstance(values, dict) or part not in values:
            return ...
        values = values[part]
    return values


def _is(shape: str, value: object) -> bool:
    if shape in {_LISTED, _PAIRED} and value is ...:
        return True
    if shape in {_TEXTS, _LISTED}:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if shape in {_PAIRS, _PAIRED}:
        return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    if shape == _TEXT:
        return isinstance(value, str)
    return isinstance(value, bool) or (shape == _CHOICE and value is None)
