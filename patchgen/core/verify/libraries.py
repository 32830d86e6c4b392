"""Checks that the dynamic linker finds the libraries of torch's shared objects."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterable, Mapping

from patchgen.core import meanings
from patchgen.core.verify.subject import Subject, make_environ
from patchgen.system.checks import Check
from patchgen.system.process import Program, capture

Missing = Mapping[str, frozenset[str]]

NAME = "libraries"

_PATTERNS = ("*.so", "lib/*.so*")
_DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")  # NVIDIA's driver, which is not needed for building


def check(subject: Subject, root: str) -> Check:
    """Run ldd on every shared object of a torch.

    Raises:
        ToolError: ldd cannot be run.
    """
    patterns = [os.path.join(glob.escape(root), pattern) for pattern in _PATTERNS]
    objects = sorted({path for pattern in patterns for path in glob.glob(pattern)})
    if not objects:
        return Check(NAME, (f"{root}: has no shared objects: no torch, but a folder of this name",))
    ldd = shutil.which("ldd")
    if ldd is None:
        return Check(NAME, ("ldd: not on PATH; install it (Debian: libc-bin)",))
    environ = make_environ(subject, {})
    found = parse(_ldd(subject, [ldd, *objects], environ, "ldd"), objects[0])
    missing = {name: users for name, users in found.items() if name not in _DRIVER}
    notes = [f"{len(objects)} shared objects"]
    if found.keys() - missing.keys():
        notes.append("NVIDIA's driver is not here")
    if not missing and environ.pop("LD_LIBRARY_PATH", ""):
        alone = parse(_ldd(subject, [ldd, *objects], environ, "ldd-alone"), objects[0])
        needed = sorted(alone.keys() - found.keys())
        if needed:
            notes.append(f"only LD_LIBRARY_PATH finds {', '.join(needed)}")
    return Check(NAME, tuple(_problems(missing)), ", ".join(notes))


def parse(out: str, first: str) -> Missing:
    """Return the missing libraries or symbol versions, with the files that need them.

    ldd names its files only if there are several, so `first` is the name of the first.
    """
    current = os.path.basename(first)
    missing: dict[str, frozenset[str]] = {}
    for line in out.splitlines():
        if line.endswith(":") and not line[0].isspace():
            current = os.path.basename(line[:-1])
        elif "not found" in line:
            version = re.search(r"version [`']([^']+)' not found", line)
            name = version[1] if version else line.partition("=>")[0].strip()
            missing[name] = missing.get(name, frozenset()) | {current}
    return missing


def _ldd(subject: Subject, command: list[str], environ: dict[str, str], name: str) -> str:
    directory = os.path.join(subject.scratch, name)
    os.mkdir(directory)
    ended = capture(Program(command, directory, environ, supervised=True), limit=subject.limit)
    return (ended.out + ended.err).decode(errors="replace")


def _problems(missing: Missing) -> Iterable[str]:
    for name, users in sorted(missing.items()):
        hint = meanings.find("library", f"{name} not found")
        yield f"{name} not found, for {', '.join(sorted(users))}: {hint}"
