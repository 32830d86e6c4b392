"""The build that a rebuild repeats: its files, and the values of their provenance."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from patchgen.core.library import homes, origin
from patchgen.errors import FileError, OptionsError
from patchgen.options import HOMES, VARIABLES, Options
from patchgen.system import paths, statement
from patchgen.system.statement import Provenance

LIBRARIES = (origin.CLIENT, origin.SIMULATOR)
"""Kinds whose files are a SWITCHML_HOME; other kinds have one file."""
_HOMES = {variable.name: variable.field for variable in VARIABLES if variable.field in HOMES}
# Characters that paths and arguments cannot have, or that terminals interpret.
_UNUSABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udc7f\udd00-\udfff]")

T = TypeVar("T")


@dataclass(frozen=True)
class RecordedBuild:
    """Files to rebuild, and the values of their provenance by dotted names.

    Methods refuse a value that is missing or has another type.
    """

    path: str
    """Absolute path of the main file, as `os` takes it."""
    source: str
    """Path of the provenance."""
    provenance: Provenance

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of the files, by name."""
        return {one.name: one.sha256 for one in self.provenance.subjects}

    def list_files(self, main: str | None = None) -> dict[str, str]:
        """Return paths by name: of the files, or of those beside another main file."""
        path = self.path if main is None else main
        if self.provenance.kind not in LIBRARIES:
            first, *others = self.digests
            beside = {name: os.path.join(os.path.dirname(path), name) for name in others}
            return {first: path, **beside}
        home = os.path.dirname(os.path.dirname(path))
        return {name: os.path.join(home, name) for name in self.digests}

    def take(self, name: str, form: type[T], default: T | None = None) -> T:
        """Return a value by a name such as request.pin.name; refuse one of another type.

        A list or a mapping has only texts. `default` is for a missing value.
        """
        made = self.provenance
        value: Any = {
            "request": made.request, "resolved": made.resolved, "builder": made.builder,
        }  # fmt: skip
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is None and default is not None:
            return default
        if not isinstance(value, form) or not all(map(_is_usable, _list_texts(value))):
            raise self.refuse(name)
        return value

    def text(self, name: str) -> str:
        """Return a text."""
        return self.take(name, str)

    def pairs(self, name: str) -> dict[str, str]:
        """Return texts by their keys."""
        return self.take(name, dict)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; empty where it is missing."""
        return tuple(self.take(name, list, []))

    def options(self) -> Options:
        """Return flags and homes; a home that is not recorded becomes /."""
        named = self.pairs("request.homes")
        if not {*named} <= {*_HOMES}:
            raise self.refuse("request.homes")
        values = {field: named.get(name, "/") for name, field in _HOMES.items()}
        try:
            return Options(self.texts("request.flags"), **values)
        except OptionsError as error:
            raise self.refuse(f"request.flags or homes ({error})") from error

    def client(self) -> RecordedBuild | None:
        """Return the client library that was linked; None without one."""
        found = self.provenance.resolved.get("client")
        if found is None:
            return None
        try:
            described = statement.parse(found)
        except statement.UNREADABLE as error:
            raise self.refuse("resolved.client") from error
        if described.kind not in LIBRARIES:
            raise self.refuse("resolved.client")
        home = paths.native(self.text("request.homes.SWITCHML_HOME"))
        client = RecordedBuild(os.path.join(home, homes.ARCHIVE), self.source, described)
        client.check_names()
        return client

    def check_names(self) -> None:
        """Refuse file names that lead out of their directory."""
        for name in self.digests:
            outside = os.path.isabs(name) or ".." in name.split("/")
            if not name or outside or not _is_usable(name):
                raise self.refuse("subject")

    def refuse(self, name: str) -> OptionsError:
        """Return the error for an unusable value."""
        return OptionsError(f"{self.source}: has no usable {name}; give the file as it was written")


def _list_texts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return (*value.keys(), *value.values())
    return value if isinstance(value, list) else (value,) if isinstance(value, str) else ()


def _is_usable(text: object) -> bool:
    return isinstance(text, str) and not _UNUSABLE.search(text)


def find(given: str, source: str | None, kinds: Collection[str]) -> RecordedBuild:
    """Return the files that the user named: a wheel, a graft, a client library or its home.

    `source` is the path of the provenance; None: beside the files.

    Raises:
        OptionsError: there is no provenance, or one of another kind.
        FileError: there is no such file.
    """
    path = os.path.abspath(given)
    if os.path.isdir(path):
        path = os.path.join(path, homes.ARCHIVE)
    shown = paths.describe(path)
    if not os.path.isfile(path):
        raise FileError(f"{shown}: no such file; name a wheel, a graft or a client library")
    if source is None and not os.path.isfile(path + statement.SUFFIX):
        raise OptionsError(
            f"{shown}: has no {statement.SUFFIX[1:]} beside it; give it with --provenance FILE"
        )
    source = source or path + statement.SUFFIX
    made = statement.read(source)
    if made.kind not in kinds:
        raise OptionsError(
            f"{source}: is of a {paths.printable(made.kind)}, which this switchml-patch "
            f"cannot make; it makes {', '.join(kinds)}"
        )
    if made.kind in LIBRARIES and os.path.basename(path) != origin.ARCHIVE:
        raise OptionsError(f"{source}: belongs to a client library; name its {origin.ARCHIVE}")
    original = RecordedBuild(path, source, made)
    original.check_names()
    return original
