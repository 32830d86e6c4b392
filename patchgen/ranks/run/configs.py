"""The switchml.cfg of each rank."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from patchgen.client import simulator
from patchgen.errors import OptionsError
from patchgen.payload.rank_hook import RANK_MARK, WORLD_MARK
from patchgen.ranks.run.job import STOCK
from patchgen.system import paths
from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.ranks.run.job import Job, Setup

_FILLED_IN = {"rank": RANK_MARK, "num_workers": WORLD_MARK}


def check(files: Sequence[str], workers: int) -> None:
    """Refuses configurations that cannot be those of the ranks.

    Raises:
        OptionsError: one cannot be read, or their number does not fit.
    """
    for path in files:
        _read(path)
    if len(files) > 1 and workers not in (0, len(files)):
        raise OptionsError(
            f"{len(files)} configurations for {workers} ranks; give one for each rank, "
            "or one in which the rank is filled in"
        )


def of(job: Job, setup: Setup) -> dict[str, Any]:
    """What the ranks have to know: `files`, one for each, or a `template`, or neither.

    Raises:
        OptionsError: a configuration cannot be read.
    """
    if setup.way == STOCK:
        return {"files": [], "template": None}
    if len(job.configs) == 1 and job.workers != 1:
        return {"files": [], "template": template(_read(job.configs[0]))}
    if job.configs:
        return {"files": list(job.configs), "template": None}
    made = simulator.config_text(controller_port=free_port())
    return {"files": [], "template": template(made) if setup.simulated else None}


def template(text: str) -> str:
    """A configuration with marks for the rank and the number of ranks in its [general] section."""
    lines = []
    section, begun = "", False
    for line in text.splitlines():
        found = re.match(r"\s*\[(.*)\]", line)
        if found:
            section = found[1].strip()
        key = re.match(r"\s*([\w.]+)\s*=", line)
        name = ".".join([*([section] if section else []), key[1] if key else ""])
        if name.startswith("general.") and name.partition(".")[2] in _FILLED_IN:
            continue
        lines.append(line)
        if section == "general" and found and not begun:
            begun = True
            lines += [f"{key} = {mark}" for key, mark in _FILLED_IN.items()]
    if not begun:
        lines[:0] = [f"general.{key} = {mark}" for key, mark in _FILLED_IN.items()]
    return "\n".join(lines) + "\n"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as error:
        told = paths.printable(paths.from_native(path))
        raise OptionsError(f"{told}: {error.strerror}; give a switchml.cfg") from error
