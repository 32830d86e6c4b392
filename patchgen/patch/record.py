"""Record in a patched tree, one line, of the options it was patched with."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from patchgen import __version__
from patchgen.errors import OptionsError
from patchgen.options import HOMES, Options
from patchgen.system import paths

if TYPE_CHECKING:
    from patchgen.patch.pins import Pin

PREFIX = "# switchml-patch: "
_CONTENT = tuple(field.name for field in fields(Options) if field.compare)


@dataclass(frozen=True)
class Record:
    """Pin, version and options that a patch was made from."""

    pin: str
    version: str
    options: Options


def dump(options: Options, pin: Pin) -> str:
    """Writes a record as one line of ASCII JSON. Lossless: lone surrogates are escaped."""
    values = {name: getattr(options, name) for name in _CONTENT}
    return json.dumps({"pin": pin.name, "version": __version__, **values}, sort_keys=True)


def parse(content: bytes, marker: str = PREFIX) -> Record | None:
    """The record in the first line that starts with `marker`; None where there is no valid one."""
    start = marker.encode("ascii")
    line = next((line for line in content.split(b"\n") if line.startswith(start)), None)
    if line is None:
        return None
    try:
        data = json.loads(line[len(start) :])
        pin, version = data.pop("pin"), data.pop("version")
        options = Options(**data)
        for name in HOMES:
            paths.encode(data[name])
    except (AttributeError, KeyError, OptionsError, TypeError, ValueError):
        return None
    typed = all(isinstance(data[name], str if name in HOMES else bool) for name in _CONTENT)
    if not (typed and isinstance(pin, str) and isinstance(version, str)):
        return None
    return Record(pin, version, options)
