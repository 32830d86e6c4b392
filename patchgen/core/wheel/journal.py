"""Journal of finished stages on the disk: a value each, with a digest of its inputs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from patchgen.core.wheel.values import BuiltWheel, Configured, Objects, Verified
from patchgen.system import files

_FILE = "state.json"
_VERSION = 1
_NAMES: Mapping[type, str] = {
    Configured: "configured",
    Objects: "compile",
    BuiltWheel: "wheel",
    Verified: "verify",
}

Value = TypeVar("Value", Configured, Objects, BuiltWheel, Verified)


class Journal:
    """The journal of a work directory. Every change is on the disk before it counts."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, _FILE)
        self._stages: dict[str, Any] = {}
        try:
            with open(self._path, encoding="utf-8") as file:
                data = json.load(file)
            if data["version"] == _VERSION:
                self._stages = dict(data["stages"])
        except FileNotFoundError:
            pass
        except (KeyError, TypeError, ValueError):
            pass  # it says nothing, so everything is looked at again

    def get(self, kind: type[Value], inputs: str | None = None) -> Value | None:
        """Value that a stage has recorded.

        Args:
            kind: of its value.
            inputs: the digest that it must have been made from; any without.
        """
        entry: Any = self._stages.get(_NAMES[kind])
        try:
            if inputs is not None and entry["inputs"] != inputs:
                return None
            made: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in entry["made"].items()
            }
            return kind(**made)
        except (AttributeError, KeyError, TypeError):
            return None

    def put(self, value: Configured | Objects | BuiltWheel | Verified, inputs: str) -> None:
        """A stage has come to its end."""
        self._stages[_NAMES[type(value)]] = {"inputs": inputs, "made": asdict(value)}
        self._write()

    def drop(self, kind: type[Value]) -> None:
        """A stage is about to begin: what it made before counts no more."""
        if self._stages.pop(_NAMES[kind], None) is not None:
            self._write()

    def _write(self) -> None:
        data = {"version": _VERSION, "stages": self._stages}
        text = json.dumps(data, indent=2, sort_keys=True)
        files.replace(os.fsencode(self._path), text.encode() + b"\n")
