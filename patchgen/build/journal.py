"""What was done already: each stage with a digest of all that it was made from."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchgen.system import files

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = "state.json"
_VERSION = 1


@dataclass(frozen=True)
class Done:
    """A stage that came to its end: the digest of its inputs, and what it made."""

    inputs: str
    made: Mapping[str, Any]


def digest(inputs: Mapping[str, Any]) -> str:
    """SHA-256 over the inputs of a stage."""
    text = json.dumps(inputs, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Record:
    """The record of a work directory. Every change is on the disk before it counts."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, _NAME)
        self._stages: dict[str, Done] = {}
        try:
            with open(self._path, encoding="utf-8") as file:
                data = json.load(file)
            if data["version"] == _VERSION:
                self._stages = {name: Done(**done) for name, done in data["stages"].items()}
        except FileNotFoundError:
            pass
        except (KeyError, TypeError, ValueError, AttributeError):
            pass  # it says nothing, so everything is looked at again

    def get(self, stage: str) -> Done | None:
        """What is known of a stage."""
        return self._stages.get(stage)

    def put(self, stage: str, done: Done) -> None:
        """A stage has come to its end."""
        self._stages[stage] = done
        self._write()

    def drop(self, stage: str) -> None:
        """A stage is about to begin."""
        if self._stages.pop(stage, None) is not None:
            self._write()

    def _write(self) -> None:
        stages = {
            name: {"inputs": done.inputs, "made": dict(done.made)}
            for name, done in self._stages.items()
        }
        text = json.dumps({"version": _VERSION, "stages": stages}, indent=2, sort_keys=True)
        files.replace(os.fsencode(self._path), text.encode() + b"\n")
