"""The configuration of a rank, switchml.cfg: where it lies, how it is read and written."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from patchgen.core.library.settings import DEFAULTS, PREPOSTPROCESSORS, SETTINGS
from patchgen.errors import OptionsError
from patchgen.options import BACKENDS
from patchgen.system import files, paths

NAME = "switchml.cfg"
DEFAULT_PORT = int(DEFAULTS["general.controller_port"])
MAX_WORKERS = 0xFFFF
AUTO = "auto"
"""Value that each rank replaces by its own."""

_BYTE_ORDER_MARKS = tuple(
    mark.decode("utf-8", "surrogateescape")
    for mark in (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
)
_BY_RANK = {setting.name for setting in SETTINGS if setting.by_rank}
_PLACES = "/etc/switchml.cfg, ./switchml.cfg or ./switchml-<hostname>.cfg, the first that exists"


def load(path: str) -> str:
    """Return the text of a file; bytes that are not UTF-8 become surrogate escapes.

    Raises:
        OptionsError: the file cannot be read, or has a byte order mark.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError as error:
        raise OptionsError(
            f"{paths.describe(path)}: {error.strerror}; give a switchml.cfg"
        ) from error
    if text.startswith(_BYTE_ORDER_MARKS):
        raise OptionsError(
            f"{paths.describe(path)}: has a byte order mark; save it as UTF-8 without one"
        )
    return text


def save(path: str, text: str) -> None:
    """Write a text that `load` or `compose` returned.

    Raises:
        OSError: the file cannot be written.
    """
    files.write(path, text.encode("utf-8", "surrogateescape"))


class _Line(NamedTuple):
    text: str
    section: str
    """Section that the line begins or is in, with a final dot; empty before the first."""
    begins: bool
    key: str
    """Section and key; empty where the line sets no value."""
    value: str
    """Value of the key, else the whole text without its comment."""


def _scan(text: str) -> Iterator[_Line]:
    """Yield the lines as boost::program_options parses them."""
    section = ""
    for line in text.splitlines():
        content = line.partition("#")[0].strip()
        begins = content.startswith("[") and content.endswith("]")
        if begins:
            section = content[1:-1].strip().rstrip(".") + "."
        name, equals, value = content.partition("=")
        if equals and not begins:
            yield _Line(line, section, begins, section + name.strip(), value.strip())
        else:
            yield _Line(line, section, begins, "", content)


def parse(text: str) -> dict[str, str]:
    """Return the values of a text by section and key, such as `general.rank`.

    Raises:
        ValueError: the library would refuse the text; the message names the line.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(_scan(text), 1):
        if line.key in values:
            raise ValueError(f"line {number} gives {line.key} again")
        if line.key:
            values[line.key] = line.value
        elif line.value and not line.begins:
            raise ValueError(f"line {number} is no 'key = value'")
    return values


def without_numbers(text: str) -> str:
    """Remove the rank and the number of workers, so that each rank fills them in."""
    return "".join(f"{line.text}\n" for line in _scan(text) if line.key not in _BY_RANK)


def compose(values: Mapping[str, str], sections: Collection[str] = ()) -> str:
    """Compose the text of a file, with a comment for each setting.

    Args:
        values: values by name, such as `general.rank`; all are written.
        sections: sections of which all settings are written. Those that each rank fills in become
        comments, because SwitchML's own programs cannot read `auto`.

    Raises:
        ValueError: a name is not one of a setting.
    """
    unknown = sorted({*values} - {*DEFAULTS})
    if unknown:
        raise ValueError(f"no setting of switchml.cfg: {', '.join(unknown)}")
    lines, begun = [f"# Read from {_PLACES}."], ""
    for setting in SETTINGS:
        if setting.name not in values and setting.section not in sections:
            continue
        if setting.section != begun:
            begun = setting.section
            lines += ["", f"[{begun}]"]
        lines += [f"# {line}" for line in setting.about.splitlines()]
        if setting.by_rank and setting.name not in values:
            lines.append(f"# {setting.key} = {AUTO}")
            continue
        written = setting.default if setting.written is None else setting.written
        lines.append(f"{setting.key} = {values.get(setting.name, written)}")
    return "\n".join(lines) + "\n"


def compose_dummy(rank: int, workers: int, controller_port: int | None = None) -> str:
    """Compose the text for the dummy backend, with settings that every build knows.

    `controller_port`: port of rank 0 on the loopback, for a library whose dummy sums.
    """
    values = {
        "general.rank": str(rank),
        "general.num_workers": str(workers),
        "general.packet_numel": "256",
        "general.backend": "dummy",
        "general.prepostprocessor": PREPOSTPROCESSORS[0],
    }
    if controller_port is not None:
        values["general.controller_port"] = str(controller_port)
    return compose(values)


def compose_installed(flags: Collection[str]) -> str:
    """Compose the text for a library with these flags, without settings unknown to it."""
    backend = next((flag.field for flag in BACKENDS if flag.name in flags), "dummy")
    return compose({"general.backend": backend}, ("general", f"backend.{backend}", "backend.dummy"))
