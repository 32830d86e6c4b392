"""What makes a difference to a build, and what the cache gets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen.errors import ToolError
from patchgen.system import native
from patchgen.system.native import Project, cmake
from patchgen.system.native import cache as caches

PROJECT = Project("thing", "a thing", "lib/thing.so", files={"CMakeLists.txt": b"1", "a.cpp": b"2"})


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Titles of what was compiled, by a compiler that writes the title."""
    titles: list[str] = []

    @contextmanager
    def build_project(_files: object, title: str, _environ: object) -> Iterator[str]:
        titles.append(title)
        place = tmp_path / f"build-{len(titles)}"
        (place / "lib").mkdir(parents=True)
        (place / "lib" / "thing.so").write_text(title)
        yield str(place)

    monkeypatch.setattr(cmake, "build_project", build_project)
    return titles


def get(project: Project, tmp_path: Path, **environ: str) -> native.Product:
    return native.get_or_build(project, str(tmp_path / "cache"), environ)


def test_the_same_inputs_are_built_once(builds: list[str], tmp_path: Path) -> None:
    first, second = (get(PROJECT, tmp_path) for _ in range(2))
    assert (first.new, second.new) == (True, False)
    assert first.path == second.path
    with open(first.path, encoding="ascii") as file:
        assert file.read() == "a thing"
    assert builds == ["a thing"]


@pytest.mark.parametrize(
    "other",
    [
        replace(PROJECT, files={**PROJECT.files, "a.cpp": b"3"}),
        replace(PROJECT, files={"CMakeLists.txt": b"1", "b.cpp": b"2"}),
        replace(PROJECT, inputs=([1, 2],)),
    ],
)
def test_another_input_is_another_build(other: Project, builds: list[str], tmp_path: Path) -> None:
    get(PROJECT, tmp_path)
    assert get(other, tmp_path).new
    assert len(builds) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("CXX", "clang++"), ("CXXFLAGS", "-g"), ("COMPILER_PATH", "/c"), ("LIBRARY_PATH", "/l")],
)
def test_another_compiler_or_flag_is_another_build(
    name: str, value: str, builds: list[str], tmp_path: Path
) -> None:
    first = get(PROJECT, tmp_path)
    other = get(PROJECT, tmp_path, **{name: value})
    assert other.new
    assert first.built["toolchain"] != other.built["toolchain"] or name != "CXX"
    assert other.built["variables"] == {name: value} != first.built["variables"]
    assert not get(PROJECT, tmp_path, SOMETHING="else").new
    assert len(builds) == 2


def test_only_another_version_of_a_linked_library_is_another_build(
    builds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a renewed list, as of ldconfig, nor a library that the project does not link."""
    known = tmp_path / "ld.so.cache"
    monkeypatch.setattr(caches, "_LOADER", str(known))
    project = replace(PROJECT, libraries=("glog", "grpc++"))

    def is_new(*names: str) -> bool:
        entries = [text for name in names for text in (name, f"/lib/{name}")]
        known.write_bytes(b"glibc-ld.so.cache1.1\0" + "\0".join([*entries, ""]).encode())
        return get(project, tmp_path).new

    assert is_new("libglog.so.0", "libgrpc++.so.1.51")
    assert not is_new("libgrpc++.so.1.51", "libglog.so.0")
    assert not is_new("libglog.so.0", "libgrpc++.so.1.51", "libother.so.1", "libglogger.so.7")
    assert is_new("libglog.so.1", "libgrpc++.so.1.51")
    assert not get(project, tmp_path).new
    known.unlink()
    assert get(project, tmp_path).new
    assert len(builds) == 3


def test_libraries_of_this_machine() -> None:
    assert caches.list_libraries(["c"]) == ["libc.so.6"]


def test_what_is_refused_does_not_stay(builds: list[str], tmp_path: Path) -> None:
    def refuse(path: str) -> None:
        assert os.path.exists(path)
        raise ToolError(path)

    for _ in range(2):
        with pytest.raises(ToolError):
            native.get_or_build(PROJECT, str(tmp_path / "cache"), {}, refuse)
    assert len(builds) == 2
    assert get(PROJECT, tmp_path).new


def test_a_newer_compiler_of_the_same_path_is_another(tmp_path: Path) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text("1")
    compiler.chmod(0o755)
    environ = {"CXX": str(compiler)}
    before = caches.describe_compiler(environ)
    assert caches.describe_compiler(environ) == before
    os.utime(compiler, ns=(1, 1))
    assert caches.describe_compiler(environ) != before
