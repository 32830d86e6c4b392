"""Cache of the answers of probed interpreters, so that torch is not imported again for them.

An answer counts as long as nothing has changed that it was read from. Its key is a digest of

- the version of this tool and the texts of the probes;
- the path of the interpreter, the file there, and the environment but for variables that a shell
  sets by itself;
- the answer without torch: the interpreter's version and directories, its import path, the hook of
  a graft and the graft that is to be loaded, the directory of torch;
- the names in each directory of the import path, and the .pth files there.

Beside the key stand all files that the probe had loaded (the interpreter, modules, shared
libraries), and a digest of their inodes, sizes and times, and of the names in the directories of
the modules. The change time is among these, which no program can set back. An answer is kept only
where nothing failed, and no such file or directory changed while the probe ran.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

from patchgen import __version__
from patchgen.core.torch.payload import torch_probe
from patchgen.errors import FileError
from patchgen.system import files
from patchgen.system.payload import probe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patchgen.system.interpreter import Interpreter

    Found = Mapping[str, Any]

_DIGITS = 16
_OF_SHELLS = {"_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES"}
_OF_SLOTS = ("PYTHONPATH", "SWITCHML_GRAFT")
_BYTECODE = "__pycache__"


class Answers:
    """Cached answer to one question: an interpreter in an environment.

    Answers of the same interpreter with another PYTHONPATH or graft are beside it; a newer answer
    with any other difference takes its place.
    """

    def __init__(self, cache: str, quick: Interpreter, environ: Mapping[str, str]) -> None:
        """Names the answer.

        Args:
            cache: directory of all that is kept.
            quick: answers of the interpreter without torch.
            environ: environment of the question.
        """
        slot = [quick.path, *(environ.get(name) for name in _OF_SLOTS)]
        self._path = os.path.join(cache, "run", f"torch-{files.digest(slot)[:_DIGITS]}.json")
        own = sorted((key, text) for key, text in environ.items() if key not in _OF_SHELLS)
        places = {path: _list_place(path) for path in quick.found.get(probe.PATH, [])}
        programs = [
            [path, os.path.realpath(path), _stamp(path)] for path in (quick.path, quick.executable)
        ]
        tool = [__version__, files.sha256(probe.__file__), files.sha256(torch_probe.__file__)]
        self._key = files.digest([tool, programs, own, dict(quick.found), places])
        self._begun = time.time_ns()

    def load(self) -> Found | None:
        """Loads the answer; None where there is none, or something has changed."""
        try:
            with open(self._path, encoding="ascii") as file:
                kept = json.load(file)
            if kept["key"] == self._key and kept["state"] == _read_state(kept["files"])[0]:
                found: Found = kept["found"]
                return found
        except (OSError, ValueError, KeyError, TypeError):
            pass  # another program's file, or one of another version
        return None

    def save(self, found: Found) -> None:
        """Saves an answer that was asked for after this object was made, where that can be.

        Args:
            found: answers by step of the probe, among them the files that it had loaded.
        """
        paths = sorted(found[torch_probe.FILES])
        state, changed = _read_state(paths)
        if changed >= self._begun:
            return
        answers = {step: answer for step, answer in found.items() if step != torch_probe.FILES}
        kept = {"key": self._key, "state": state, "files": paths, "found": answers}
        with contextlib.suppress(OSError, FileError):  # then the next run asks again
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            files.replace(os.fsencode(self._path), json.dumps(kept).encode("ascii"))


def _read_state(paths: Iterable[str]) -> tuple[str, int]:
    """Digest of the state of files and of their modules' directories, and its latest change."""
    stamps = {path: _stamp(path) for path in paths}
    directories = sorted({os.path.dirname(path) for path in stamps if path.endswith(".py")})
    names = {directory: _list_names(directory) for directory in directories}
    changes = [stamp[-1] for stamp in (*stamps.values(), *map(_stamp, directories))]
    return files.digest([stamps, names]), max(changes, default=0)


def _list_place(path: str) -> object:
    """Lists a place of the import path: names and .pth files of a directory, or an archive."""
    if not os.path.isdir(path):
        return _stamp(path)
    return {
        name: _stamp(os.path.join(path, name)) if name.endswith(".pth") else None
        for name in _list_names(path)
    }


def _list_names(directory: str) -> list[str]:
    """Lists a directory without Python's bytecode, which comes and goes."""
    try:
        return sorted(name for name in os.listdir(directory) if name != _BYTECODE)
    except OSError:
        return []


def _stamp(path: str) -> list[int]:
    """Inode, size and times of a file, the change time last; nothing but 0 where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return [0]
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
