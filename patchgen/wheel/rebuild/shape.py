"""Shape of a provenance: the values that a rebuild reads, by kind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from patchgen import plugin
from patchgen.client import origin
from patchgen.errors import OptionsError
from patchgen.graft import provenance as grafts
from patchgen.options import check_flags
from patchgen.system import statement
from patchgen.wheel import provenance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.system.statement import Provenance

_TEXT, _TEXTS, _PAIRS, _TRUTH, _CHOICE = "text", "texts", "pairs", "truth", "choice"
_TOOLS = {"resolved.toolchain.compiler": _TEXT, "resolved.toolchain.programs": _PAIRS,
          "request.variables": _PAIRS}  # fmt: skip
_OPTIONS = {"request.flags": _TEXTS, "request.homes": _PAIRS}
_PIN = {"request.pin.name": _TEXT, "request.pin.commit": _TEXT}
_HOME = {"request.homes.SWITCHML_HOME": _TEXT}
_TORCH = {f"resolved.torch.{name}": _TEXT for name in
          ("python", "version", "commit", "root", "python_version")}  # fmt: skip
_PYTHON = {
    **{f"resolved.toolchain.{name}": _TEXT for name in ("python", "python_version", "soabi")},
    "resolved.toolchain.packages": _PAIRS,
}
_SHAPES: Mapping[str, Mapping[str, str]] = {
    origin.CLIENT: {
        **_TOOLS, **_OPTIONS, "request.mends": _TEXTS, "request.cxx11_abi": _CHOICE,
    },
    origin.SIMULATOR: {**_TOOLS, "request.debug": _TRUTH, "request.cxxflags": _TEXT},
    plugin.KIND: {**_TOOLS, **_OPTIONS, **_HOME, **_TORCH, "request.bundle": _TRUTH},
    grafts.KIND: {**_TOOLS, **_OPTIONS, **_HOME, **_TORCH, **_PIN},
    provenance.KIND: {
        **_TOOLS, **_OPTIONS, **_HOME, **_PYTHON, **_PIN, "resolved.buildPath": _TEXT,
    },
}  # fmt: skip


def check_shape(record: str, made: Provenance) -> None:
    """Refuses a provenance that lacks a value, or has another one in its place.

    Args:
        record: its path, for the message.
        made: the provenance, of a kind that can be made again.

    Raises:
        OptionsError: with the name of the value.
    """
    wrong = next(_find_wrong(made), None)
    if wrong is not None:
        raise OptionsError(f"{record}: has no usable {wrong}; give the file as it was written")


def _find_wrong(made: Provenance) -> Iterator[str]:
    """Names of the values that cannot be used."""
    for one in made.subjects:
        if os.path.isabs(one.name) or ".." in one.name.split("/"):
            yield "subject"
    values = {"request": made.request, "resolved": made.resolved}
    for name, shape in _SHAPES[made.kind].items():
        if not _is(shape, _look_up(values, name)):
            yield name
    try:
        check_flags(made.request.get("flags", ()))
    except OptionsError:
        yield "request.flags"
    if "client" not in made.resolved:
        return
    try:
        client = statement.parse(made.resolved["client"])
    except (ValueError, LookupError, TypeError, AttributeError):
        yield "resolved.client"
        return
    if client.kind in {origin.CLIENT, origin.SIMULATOR}:
        yield from (f"resolved.client: {wrong}" for wrong in _find_wrong(client))
    else:
        yield "resolved.client"


def _look_up(values: Any, name: str) -> object:  # noqa: ANN401  # as in JSON
    for part in name.split("."):
        if not isinstance(values, dict) or part not in values:
            return ...
        values = values[part]
    return values


def _is(shape: str, value: object) -> bool:
    if shape == _TEXTS:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if shape == _PAIRS:
        return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    if shape == _TEXT:
        return isinstance(value, str)
    return isinstance(value, bool) or (shape == _CHOICE and value is None)
