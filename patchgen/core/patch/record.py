"""Record in a patched tree, one line, of the options it was patched with."""

from __future__ import annotations

import json
from typing import NamedTuple

from patchgen import __version__
from patchgen.core.patch.pins import Pin
from patchgen.errors import OptionsError
from patchgen.options import FLAGS, HOMES, Options
from patchgen.system import paths

PREFIX = "# switchml-patch: "


class Record(NamedTuple):
    """Pin, version and options that a patch was made from."""

    pin: str
    version: str
    options: Options | None
    """Options; None in a record of another version, which may mean something else by them."""


def dump(options: Options, pin: Pin) -> str:
    """Writes a record as one line of ASCII JSON. Lossless: lone surrogates are escaped."""
    values: dict[str, bool | str] = {flag.field: flag.name in options.flags for flag in FLAGS}
    values |= {name: getattr(options, name) for name in HOMES}
    return json.dumps({"pin": pin.name, "version": __version__, **values}, sort_keys=True)


def parse(content: bytes, marker: str = PREFIX) -> Record | None:
    """The record in the first line that starts with `marker`; None where there is no valid one.

    Flags that are not known, or not there, are not set.
    """
    start = marker.encode("ascii")
    line = next((line for line in content.split(b"\n") if line.startswith(start)), None)
    if line is None:
        return None
    try:
        data = json.loads(line[len(start) :])
        pin, version = data.pop("pin"), data.pop("version")
        if not (isinstance(pin, str) and isinstance(version, str)):
            return None
        if version != __version__:
            return Record(pin, version, None)
        homes = {name: data.pop(name) for name in HOMES}
        flags = tuple(flag.name for flag in FLAGS if data.get(flag.field))
        options = Options(flags, **homes)
        for home in homes.values():
            paths.encode(home)
    except (AttributeError, KeyError, OptionsError, TypeError, ValueError):
        return None
    typed = all(isinstance(value, bool) for value in data.values())
    return Record(pin, version, options) if typed else None
