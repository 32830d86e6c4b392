"""Journal of finished stages on disk: their results, with digests of their inputs."""

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
    """Journal of a work directory. Every change is on disk before a method returns."""

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
            pass  # unreadable, so no stage counts as done

    def get(self, kind: type[Value], inputs: str | None = None) -> Value | None:
        """Return the recorded result of a stage, if it was made from these inputs (None: any)."""
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
        """Record the result of a finished stage."""
        self._stages[_NAMES[type(value)]] = {"inputs": inputs, "made": asdict(value)}
        self._write()

    def drop(self, kind: type[Value]) -> None:
        """Forget the result of a stage that is about to begin."""
        if self._stages.pop(_NAMES[kind], None) is not None:
            self._write()

    def _write(self) -> None:
        data = {"version": _VERSION, "stages": self._stages}
        text = json.dumps(data, indent=2, sort_keys=True)
        files.replace(os.fsencode(self._path), text.encode() + b"\n")
