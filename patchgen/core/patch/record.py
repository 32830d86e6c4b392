"""Record of the options of a patch: one line in a patched tree."""

from __future__ import annotations

import json
from typing import NamedTuple

from patchgen import __version__
from patchgen.core.patch.pins import Pin
from patchgen.errors import OptionsError
from patchgen.options import FLAGS, HOMES, Options
from patchgen.system import paths, untrusted

PREFIX = "# switchml-patch: "


class Record(NamedTuple):
    """Pin, version of switchml-patch and options from which a patch was made."""

    pin: str
    version: str
    options: Options | None
    """None in a record of another version, whose flags may mean something else."""


def dump(options: Options, pin: Pin) -> str:
    """Serialize a record as one line of ASCII JSON, which keeps lone surrogates."""
    values: dict[str, bool | str] = {flag.field: flag.name in options.flags for flag in FLAGS}
    values |= {name: getattr(options, name) for name in HOMES}
    return json.dumps({"pin": pin.name, "version": __version__, **values}, sort_keys=True)


def parse(content: bytes, marker: str = PREFIX) -> Record | None:
    """Parse the record in the first line that starts with `marker`; None if it is invalid.

    Flags that are unknown or missing count as off.
    """
    start = marker.encode("ascii")
    line = next((line for line in content.split(b"\n") if line.startswith(start)), None)
    if line is None:
        return None
    try:
        data = untrusted.parse_json(line[len(start) :])
        pin, version = data.pop("pin"), data.pop("version")
        if not all(isinstance(one, str) and one.isprintable() for one in (pin, version)):
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
