"""The real client library, built again and again from one checkout with other fixes.

As a program it prints the images.json of the fixes, or of those of the part that it is given.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from patchgen.core.source.remotes import Remotes
from patchgen.extras.client import building, checkout, fixes
from patchgen.system.git_objects import blob_id
from support.delegate import CPP, STRICT

VARIABLE = "SWITCHML_SOURCE"
GIVEN = os.environ.get(VARIABLE)  # some tests take all such variables away
PROGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "DPDK": ("client_faults", ("-ldl",)),
    "RDMA": ("rdma_faults", ()),
}
"""Program and linked libraries for each backend."""
LIMIT = 1800.0  # seconds


def source() -> Path:
    """Return the user's checkout of SwitchML, or skip the test."""
    if not GIVEN:
        pytest.skip(
            f"{VARIABLE} names no checkout of p4app-switchML; one is made by: "
            "switchml-patch client source -o DIR"
        )
    return Path(GIVEN).resolve()


def sources(cache: Path, part: str = fixes.LIBRARY) -> dict[str, bytes]:
    """Return the files of a part of the pinned commit."""
    remotes = Remotes((), (checkout.find_reference(str(source())),))
    return checkout.read_sources(checkout.CommitOrigin(str(cache), remotes), part)


@dataclass
class Workshop:
    """Build directory in which another set of fixes compiles only what it changes."""

    root: Path
    sources: Mapping[str, bytes]
    written: dict[str, bytes] = field(default_factory=dict)

    def home(self, *without: str, flags: Sequence[str] = ("DPDK",)) -> Path:
        """Return a SWITCHML_HOME without some fixes; it lasts until the next is made.

        Raises:
            subprocess.CalledProcessError: it does not compile.
        """
        wish = building.ClientRequest(tuple(flags), fixes.choose(without, fixes.read_shipped()))
        whole = building.fix_sources(wish, self.sources)
        project = building.make_project(wish, whole)
        for path in {*self.written} - {*project}:
            (self.root / path).unlink()
        for path, content in project.items():
            if self.written.get(path) != content:
                (self.root / path).parent.mkdir(parents=True, exist_ok=True)
                (self.root / path).write_bytes(content)
        self.written = dict(project)
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        run("cmake", "-S", self.root, "-B", self.root / "build", *launcher)
        run("cmake", "--build", self.root / "build", "--parallel", "2")
        home = self.root / "home"
        shutil.rmtree(home, ignore_errors=True)
        for name, content in building.collect_files(wish, whole, str(self.root / "build")).items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(content)
        return home

    def faults(self, home: Path, backend: str = "DPDK") -> Path:
        """Return the program that provokes faults of a backend, linked with its library."""
        name, more = PROGRAMS[backend]
        module = home / "lib" / "pkgconfig" / "switchml-client.pc"
        theirs = [f"-isystem{home}/include{part}" for part in ("", "/switchml")]
        theirs += words("pkg-config", "--cflags", "libdpdk") if backend == "DPDK" else []
        made = self.root / f"{name}.o"
        if not made.exists():
            macros = (f"-D{backend}", "-DTIMEOUTS", "-DDUMMY")
            run("g++", *STRICT, *macros, *theirs, "-c", CPP / f"{name}.cpp", "-o", made)
        linked = words("pkg-config", "--libs", module)
        run("g++", made, "-o", self.root / name, *linked, *more)
        return self.root / name


def quantizer(
    place: Path, sources: Mapping[str, bytes], *without: str, flags: Sequence[str]
) -> Path:
    """Return the program that looks at rounded values, with the file that rounds them in it."""
    whole = {**sources, **fixes.apply(fixes.choose(without, fixes.read_shipped()), sources)}
    for path, content in whole.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
    library = place / checkout.LIBRARY
    parts = ("prepostprocessors/cpu_exponent_quantizer_ppp.cc", "prepostprocessor.cc")
    theirs = [f"-isystem{library}{part}" for part in ("", "/prepostprocessors")]
    run(
        "g++", "-std=c++17", "-DNDEBUG", "-DTIMEOUTS", *theirs, *flags,
        CPP / "quantizer_faults.cpp", *(library / part for part in parts), "-lglog",
        "-o", place / "quantizer",
    )  # fmt: skip
    return place / "quantizer"


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, timeout=LIMIT
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return done.stdout


def words(*command: str | Path) -> list[str]:
    return run(*command).split()


def provoke(program: Path, case: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run one case."""
    environ = {**os.environ, "SWITCHML_START_TIMEOUT_MS": "100000"}
    return subprocess.run(
        [str(program), case, *more],
        capture_output=True, text=True, check=False, timeout=120, env=environ, errors="replace",
    )  # fmt: skip


def images(part: str = fixes.LIBRARY) -> str:
    """Return the ids of all files that the fixes of a part change, as images.json has them."""
    with tempfile.TemporaryDirectory() as cache:
        fixed = fixes.apply(fixes.read_shipped(part), sources(Path(cache), part))
    found = {path: blob_id(content) for path, content in sorted(fixed.items())}
    return json.dumps(found, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(images(*sys.argv[1:]))
