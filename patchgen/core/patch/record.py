"""Record in a patched tree, one line, of the options it was patched with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from patchgen import __version__
from patchgen.errors import OptionsError
from patchgen.options import FLAGS, HOMES, Options
from patchgen.system import paths

if TYPE_CHECKING:
    from patchgen.core.patch.pins import Pin

PREFIX = "# switchml-patch: "


class Record(NamedTuple):
    """Pin, version and options that a patch was made from."""

    pin: str
    version: str
    options: Options


def dump(options: Options, pin: Pin) -> str:
    """Writes a record as one line of ASCII JSON. Lossless: lone surrogates are escaped."""
    values: dict[str, bool | str] = {flag.field: flag.name in options.flags for flag in FLAGS}
    values |= {name: getattr(options, name) for name in HOMES}
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
        flags = {flag.name: data.pop(flag.field) for flag in FLAGS}
        options = Options(tuple(name for name, value in flags.items() if value is True), **data)
        for name in HOMES:
            paths.encode(data[name])
    except (AttributeError, KeyError, OptionsError, TypeError, ValueError):
        return None
    typed = all(isinstance(value, bool) for value in flags.values()) and {*data} == {*HOMES}
    if not (typed and isinstance(pin, str) and isinstance(version, str)):
        return None
    return Record(pin, version, options)
