"""Differences between a prefix and its lock."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen.core.wheel.env import lockfile, marker
from patchgen.core.wheel.env.prefix import find_script
from patchgen.errors import ToolError, TreeError, file_errors
from patchgen.system.checks import Check
from patchgen.system.files import sha256
from patchgen.system.process import LIMIT, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.core.wheel.env.lockfile import Lock, Package

    Records = Mapping[str, Mapping[str, Any]]

_CUDA = "cudatoolkit-dev"


def compare_prefix(lock: Lock, path: str, prefix: str, *, contents: bool) -> list[Check]:
    """Compares a prefix with a lock. Changes nothing.

    Args:
        lock: as read from `path`.
        path: where the lock is, to find its environment file.
        prefix: made by whatever tool.
        contents: read every file and compare its hash; else only whether it is there.

    Raises:
        TreeError: the prefix is none.
        FileError: it cannot be read.
    """
    with file_errors():
        records = _records(prefix)
        checks = [
            Check("the lock is of its environment file", _some(lockfile.stale(lock, path))),
            Check("the prefix was made to its end", tuple(_unfinished(lock, prefix))),
            Check(f"{len(lock.packages)} packages, as locked", tuple(_packages(lock, records))),
            Check("their files", tuple(_files(prefix, records, contents=contents))),
        ]
    cuda = next((package for package in lock.packages if package.name == _CUDA), None)
    if cuda is not None:
        checks.append(Check(f"nvcc is of CUDA {cuda.version}", _some(_nvcc(prefix, cuda))))
    return checks


def _some(problem: str | None) -> tuple[str, ...]:
    return () if problem is None else (problem,)


def _records(prefix: str) -> Records:
    """The records of a prefix by package name."""
    directory = Path(prefix, "conda-meta")
    if not directory.is_dir():
        raise TreeError(
            f"{prefix}: no conda environment; run: switchml-patch env create -o {prefix}"
        )
    records = map(_record, sorted(directory.glob("*.json")))
    return {record["name"]: record for record in records}


def _record(path: Path) -> Mapping[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("name"), str):
        raise TreeError(f"{path}: no record of a package")
    return record


def _unfinished(lock: Lock, prefix: str) -> Iterator[str]:
    state = marker.read(prefix)
    if state is None:  # another tool made it
        return
    again = f"run: switchml-patch env create -o {prefix}"
    if not state.whole:
        yield f"{prefix}: half made; {again}"
        return
    for package in lock.packages:
        wanted = package.name in lock.link_scripts and package.name not in state.scripts
        if wanted and find_script(prefix, package):
            yield f"the post-link script of {package.name} has not run; {again}"


def _packages(lock: Lock, records: Records) -> Iterator[str]:
    locked = {package.name: package for package in lock.packages}
    for name in sorted(locked.keys() | records.keys()):
        if name not in records:
            yield f"{name}: missing"
        elif name not in locked:
            yield f"{name}: not in the lock"
        else:
            yield from _difference(locked[name], records[name])


def _difference(package: Package, record: Mapping[str, Any]) -> Iterator[str]:
    for key in ("version", "build"):
        if record.get(key) != getattr(package, key):
            yield f"{package.name}: {key} {record.get(key)}, not {getattr(package, key)}"
            return
    known = [key for key in ("sha256", "md5") if record.get(key)]
    if not known:
        yield f"{package.name}: its record has no hash"
    for key in known:
        if record[key] != getattr(package, key):
            yield f"{package.name}: {key} {record[key]}, not {getattr(package, key)}"


def _files(prefix: str, records: Records, *, contents: bool) -> Iterator[str]:
    for name, record in records.items():
        for entry in (record.get("paths_data") or {}).get("paths", []):
            path = os.path.join(prefix, entry["_path"])
            wanted = entry.get("sha256_in_prefix") or entry.get("sha256")
            if not os.path.lexists(path):
                yield f"{name}: {entry['_path']}: missing"
            elif contents and entry.get("path_type") == "hardlink" and _changed(path, wanted):
                yield f"{name}: {entry['_path']}: changed"


def _changed(path: str, wanted: str | None) -> bool:
    """True where a file has another hash; a file compiled while linking has none."""
    if not os.path.isfile(path):
        return True
    return wanted is not None and sha256(path) != wanted


def _nvcc(prefix: str, package: Package) -> str | None:
    """Fault of nvcc: its package brings no CUDA, a post-link script downloads it."""
    nvcc = os.path.join(prefix, "bin", "nvcc")
    if not os.path.exists(nvcc):
        return f"{nvcc}: missing: the post-link script of {package.name} has not run"
    try:
        answer = run([nvcc, "--version"], limit=LIMIT).decode(errors="replace")
    except ToolError as error:
        return str(error)
    found = re.search(r"\bV([0-9][0-9.]*)", answer)
    if found and found[1] == package.version:
        return None
    return f"{nvcc}: is V{found[1] if found else '?'}, not V{package.version}"
