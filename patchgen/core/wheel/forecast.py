"""Forecast of a compile by ninja: time left, with steps weighed by their kind.

What a build has to do is in build.ninja, and how long each step took in .ninja_log, also that of
earlier runs. Of both only what lies open is read: https://ninja-build.org/manual.html.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.system.progress import log_count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_LOGGER = logging.getLogger(__name__)
_COUNT = re.compile(rb"\[(\d+)/(\d+)\] (?!Re-running CMake)")  # ninja: steps done and in all
_BUILD = re.compile(r"^build (.*?): (\S+)(.*)$", re.MULTILINE)
_COMPILER = re.compile(r"([A-Z]+)(?:_[A-Z]+)*_COMPILER__")
_LINKER = re.compile(r"[A-Z_]+_LINKER__")
_COLUMNS = 5  # of a line of .ninja_log: begun, ended, time, output, hash
# Seconds that a step takes on the machines of today, and how many of ours it takes to outweigh it.
_USUAL = {"CXX": 5.0, "CUDA": 30.0, "HIP": 30.0, "C": 0.5, "ASM": 0.2, "link": 2.0, "other": 1.0}
_STEADY = 10


@dataclass(frozen=True)
class Ran:
    """A step that ninja has run, in seconds since that ninja began."""

    output: str
    begun: float
    ended: float


@dataclass(frozen=True)
class Progress:
    """Steps of the whole, and the seconds until its end."""

    done: int
    total: int
    left: float


class Forecast:
    """Follows what a build writes, and logs how far it is."""

    def __init__(self, build: str, workers: int) -> None:
        """Begins.

        Args:
            build: the directory where ninja runs.
            workers: how many steps run at once.
        """
        self._build = build
        self._workers = workers
        self._total = 0
        self._kinds: dict[str, str] = {}
        self._log: list[Ran] = []
        self._earlier = 0
        self._offset = 0

    def read(self, line: bytes) -> None:
        """Reads a line of the output."""
        found = _COUNT.match(line)
        if found is None:
            return
        done, total = int(found[1]), int(found[2])
        if total != self._total:  # another run of ninja
            self._total, self._log, self._offset = total, [], 0
            self._kinds = steps(self._text("build.ninja"))
            self._follow()
            self._earlier = len(self._log)
        self._follow()
        now = self._log[self._earlier :]
        seen = progress(self._kinds, self._log, now, (done, total), self._workers)
        log_count(_LOGGER, seen.done, seen.total, seen.left)

    def _follow(self) -> None:
        """Reads what is new in .ninja_log: of each step its first output."""
        whole = self._text(".ninja_log", self._offset)
        whole = whole[: whole.rfind("\n") + 1]
        self._offset += len(whole.encode(errors="surrogateescape"))
        self._log += [one for one in ran(whole.splitlines()) if one.output in self._kinds]

    def _text(self, name: str, offset: int = 0) -> str:
        """A file of ninja's, from an offset in bytes; without it nothing is known."""
        try:
            with open(os.path.join(self._build, name), "rb") as file:
                file.seek(offset)
                return file.read().decode(errors="surrogateescape")
        except OSError:
            return ""


def steps(text: str, target: str = "install") -> dict[str, str]:
    """The steps that a target takes, by their first output: of what kind each is.

    Args:
        text: of build.ninja, as CMake writes it.
        target: what ninja is asked for.
    """
    made: dict[str, str] = {}
    edges: dict[str, tuple[str, list[str]]] = {}
    for outputs, rule, inputs in _BUILD.findall(text.replace("$\n", "")):
        names = [name for name in outputs.split() if name != "|"]
        made.update(dict.fromkeys(names, names[0]))
        edges[names[0]] = rule, [name for name in inputs.split() if name.strip("|")]
    found: dict[str, str] = {}
    wanted, seen = [target], set()
    while wanted:
        name = made.get(wanted.pop())
        if name is None or name in seen:
            continue
        seen.add(name)
        rule, inputs = edges[name]
        wanted += inputs
        if rule != "phony":
            found[name] = _kind(rule)
    return found


def _kind(rule: str) -> str:
    compiler = _COMPILER.match(rule)
    if compiler:
        return compiler[1]
    return "link" if _LINKER.match(rule) else "other"


def ran(lines: Sequence[str]) -> Iterator[Ran]:
    """Yields the steps that the lines of a .ninja_log record."""
    for line in lines:
        columns = line.rstrip("\n").split("\t")
        if len(columns) == _COLUMNS and columns[0].isdecimal() and columns[1].isdecimal():
            yield Ran(columns[3], int(columns[0]) / 1000, int(columns[1]) / 1000)


def progress(
    kinds: Mapping[str, str],
    log: Sequence[Ran],
    now: Sequence[Ran],
    counted: tuple[int, int],
    workers: int,
) -> Progress:
    """Progress of a compile.

    Steps that ninja does not repeat are done. Those that are left are taken to be like the ones
    that were never run, or like all where each was run once.

    Args:
        kinds: of the steps of the whole, as `steps` gives them.
        log: what earlier runs of ninja have done, and this one.
        now: what this one has done.
        counted: what ninja says: steps done and in all.
        workers: how many steps run at once, as long as nothing is known of that.
    """
    done, total = counted
    whole = max(len(kinds), total)
    seconds = _seconds(kinds, log)
    never = {one.output for one in log}
    pool = Counter(kind for output, kind in kinds.items() if output not in never)
    pool = pool or Counter(kinds.values()) or Counter(["other"])
    each = sum(seconds[kind] * number for kind, number in pool.items()) / sum(pool.values())
    return Progress(
        done=whole - total + done,
        total=whole,
        left=(total - done) * each / _at_once(now, workers),
    )


def _seconds(kinds: Mapping[str, str], log: Sequence[Ran]) -> dict[str, float]:
    """Seconds for a step of each kind: usual ones at first, then those measured here."""
    usual = {kind: _USUAL.get(kind, _USUAL["CXX"]) for kind in {*kinds.values(), "other"}}
    sums = {kind: _STEADY * one for kind, one in usual.items()}
    numbers = dict.fromkeys(usual, _STEADY)
    for one in log:
        kind = kinds.get(one.output)
        if kind is not None:
            sums[kind] += one.ended - one.begun
            numbers[kind] += 1
    return {kind: sums[kind] / numbers[kind] for kind in usual}


def _at_once(now: Collection[Ran], workers: int) -> float:
    busy = sum(one.ended - one.begun for one in now)
    passed = max((one.ended for one in now), default=0) - min((one.begun for one in now), default=0)
    return max(1.0, busy / passed) if busy and passed else float(workers)
