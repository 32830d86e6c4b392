"""Sources and libraries of a wheel, by real programs: a compiler, ninja, ldd and dpkg."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.wheelhouse import Entry, Fake

from patchgen.core.wheel import linked
from patchgen.core.wheel.linked import Library
from patchgen.errors import TreeError

ENVIRON = {"PATH": os.environ["PATH"]}


def shared(path: Path, *options: str) -> bytes:
    """A shared object that needs what the options name."""
    source = path.with_suffix(".c")
    source.write_text("int f(void) { return 3; }")
    command = ["gcc", "-shared", "-fPIC", "-o", str(path), str(source), "-Wl,--no-as-needed"]
    subprocess.run([*command, f"-L{path.parent}", *options], check=True)
    return path.read_bytes()


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Wheel whose extension needs a library of its own, two of the system's and one of nobody."""
    inside = shared(tmp_path / "libinside.so")
    shared(tmp_path / "libnobody.so", "-Wl,-soname,libnobody.so.7")
    options = ("-linside", "-lm", "-lnobody", "-Wl,-rpath,$ORIGIN/lib")
    entries = [
        Entry("torch/_C.so", shared(tmp_path / "_C.so", *options)),
        Entry("torch/lib/libinside.so", inside),
        Entry("torch/bin/run", b"#!/bin/sh", mode=0o100755),
        Entry("torch/lib/broken.so", b"\x7fELF, and no more"),
    ]
    return Fake("torch", "1").write(tmp_path / "wheel", entries)


def test_libraries_and_the_packages_that_have_them(wheel: Path) -> None:
    found = {one.name: one for one in linked.libraries(str(wheel), None, ENVIRON)}
    assert found.keys() == {"libc.so.6", "libm.so.6", "libnobody.so.7"}
    assert found["libnobody.so.7"] == Library("libnobody.so.7")
    package = found["libm.so.6"].debian
    assert package is not None
    assert package == found["libc.so.6"].debian
    command = ["dpkg-query", "--show", "--showformat=${Version} ${Architecture}", "libc6"]
    said = subprocess.check_output(command, text=True).split()
    assert [package.name, package.version, package.architecture] == ["libc6", *said]


def test_packages_of_the_conda_environment_come_first(wheel: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "conda-meta").mkdir(parents=True)
    (prefix / "lib").mkdir()
    (prefix / "lib" / "libnobody.so.7").touch()
    for name, files in (("python", ["bin/python"]), ("nobody", ["lib/libnobody.so.7"])):
        record = {"name": name, "files": files}
        (prefix / "conda-meta" / f"{name}-1-0.json").write_text(json.dumps(record))
    found = {one.name: one for one in linked.libraries(str(wheel), str(prefix), ENVIRON)}
    assert found["libnobody.so.7"] == Library("libnobody.so.7", conda="nobody")
    assert found["libm.so.6"].debian is not None


def test_without_the_systems_programs_the_names_are_told(wheel: Path, tmp_path: Path) -> None:
    found = linked.libraries(str(wheel), None, {"PATH": str(tmp_path)})
    assert found == tuple(map(Library, ("libc.so.6", "libm.so.6", "libnobody.so.7")))


def test_a_damaged_wheel_is_refused(wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes()[:-30])
    with pytest.raises(TreeError, match="not a zip archive"):
        linked.libraries(str(wheel), None, ENVIRON)


NINJA = """\
rule cc
  command = gcc -MD -MF $out.d -I../one/include -I../one/inner -c $in -o $out
  depfile = $out.d
  deps = gcc
build a.o: cc ../a.c
"""


def test_repositories_are_those_whose_files_were_compiled(tmp_path: Path) -> None:
    source = tmp_path / "source"
    texts = {
        "a.c": "#include <header.h>\n#include <inner.h>\n#include <stddef.h>\n",
        "one/include/header.h": "",
        "one/inner/inner.h": "",
        "two/two.c": "",
        "build/build.ninja": NINJA,
    }
    for name, text in texts.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    known = ("", "one", "one/inner", "two", "third_party/nccl/nccl")
    assert linked.repositories(str(source), known, ENVIRON) is None
    subprocess.run(["ninja", "-C", source / "build"], check=True, capture_output=True)
    assert linked.repositories(str(source), known, ENVIRON) == frozenset(known[:3])
    (source / "build" / "nccl").mkdir()
    found = linked.repositories(str(source), known, ENVIRON)
    assert found == frozenset({*known} - {"two"})
    assert linked.repositories(str(source), known, {"PATH": str(tmp_path)}) is None
    shutil.rmtree(source / "build")
    assert linked.repositories(str(source), known, ENVIRON) is None
