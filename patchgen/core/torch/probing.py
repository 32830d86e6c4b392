"""Probe of an interpreter's torch, in a process of that interpreter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen.core.torch.answers import Answers
from patchgen.core.torch.installed import Installed, read_answers
from patchgen.core.torch.payload import torch_probe
from patchgen.system import interpreter
from patchgen.system.process import LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping

IMPORT_LIMIT = 600.0
"""Seconds for the first import of a large torch, which reads gigabytes."""

_NO_BYTECODE = ("-B",)  # so that a probe changes no directory that it reads


def probe_torch(
    python: str,
    environ: Mapping[str, str],
    *,
    limit: float = IMPORT_LIMIT,
    cache: str | None = None,
) -> Installed:
    """Imports the torch of an interpreter, and asks it for its support of SwitchML.

    The interpreter first answers without torch, so that a program that never answers is found soon.

    Args:
        python: path of the interpreter.
        environ: all of its environment.
        limit: seconds for the import.
        cache: directory of answers that are still right; without, torch is imported each time.

    Raises:
        ToolError: the program cannot be started, or is no Python interpreter.
    """
    quick = interpreter.ask(
        python, environ, program=_call("look_before_import"), limit=min(limit, LIMIT)
    )
    answers = Answers(cache, quick, environ) if cache else None
    found = answers.load() if answers else None
    if found is not None:
        return read_answers(replace(quick, found={**quick.found, **found}))
    asked = interpreter.ask(
        python, environ, program=_call("look_at_torch"), flags=_NO_BYTECODE, limit=limit
    )
    installed = read_answers(asked)
    if answers and installed.is_complete:
        answers.save(asked.found)
    return installed


def has_hook(python: str, environ: Mapping[str, str]) -> bool:
    """Returns True where an interpreter has the import hook of a graft.

    Raises:
        ToolError: the program cannot be started, or is no Python interpreter.
    """
    asked = interpreter.ask(python, environ, program=_call("look_before_import"))
    return asked.found.get(torch_probe.HOOK) is not None


def _call(function: str) -> bytes:
    """Text of the probe, with the call of a function."""
    return Path(torch_probe.__file__).read_bytes() + f"\n{function}(answer)\n".encode("ascii")
