"""Which paths survive CMake, the build tools, the linker and the loader, with the real programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from patchgen.errors import OptionsError
from patchgen.options import REFUSED_IN_HOMES, resolve
from patchgen.patch import quoting
from patchgen.system import paths

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

HOSTILE = [
    b"", b"plain", b" a  b ", b'a"b', b"a'b", b"a\\b\\", b"${HOME}", b"$ENV{HOME}", b"$<1:x>",
    b"@X@", b"a;b", b"a,b:c|d", b"# no comment", b"[[x]]", b"[=[x]=]", b"]]", b"(p)", b"`x`",
    b"%n", b"&<>*?!",
    "ünï 日本".encode(), b"\xff\xfe", b"-dash", b"~", b"a\tb",
]  # fmt: skip
ACCEPTED = [b"a b", b"a'b", b"a#b%c&d", b"(p) {r}", "ünï".encode(), b"\xff", b"-x=@y!+^`~"]

PROJECT = b"""\
cmake_minimum_required(VERSION 3.5)
project(probe CXX)
set(HOME_DIR %s)
add_library(shared SHARED shared.cpp)
target_include_directories(shared PRIVATE "${HOME_DIR}/include")
target_link_libraries(shared PRIVATE "${HOME_DIR}/lib/libstatic.a" "${HOME_DIR}/lib/libother.so")
set_property(TARGET shared APPEND PROPERTY BUILD_RPATH "${HOME_DIR}/lib")
add_executable(main main.cpp)
target_link_libraries(main PRIVATE shared)
"""


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}: apt-get install cmake ninja-build g++ make")


def run(*command: object, cwd: Path) -> bytes:
    done = subprocess.run(
        [os.fspath(argument) for argument in command],  # type: ignore[call-overload]
        cwd=cwd, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.decode(errors="replace")
    return bytes(done.stdout)


def test_the_filter_gives_one_argument_that_is_the_value(tmp_path: Path) -> None:
    need("cmake")
    lines = [
        "cmake_minimum_required(VERSION 3.5)",
        "function(count)",
        "  if(NOT ARGC EQUAL 1)",
        '    message(FATAL_ERROR "${ARGC} arguments: ${ARGN}")',
        "  endif()",
        "endfunction()",
    ]
    for number, value in enumerate(HOSTILE):
        literal = quoting.cmake(paths.decode(value))
        lines += [
            f"set(v {literal})",
            f'file(WRITE "{tmp_path}/{number}" "${{v}}")',
            f"count({literal})",
        ]
    (tmp_path / "script.cmake").write_bytes(paths.encode("\n".join(lines) + "\n"))
    run("cmake", "-P", tmp_path / "script.cmake", cwd=tmp_path)
    assert [(tmp_path / str(n)).read_bytes() for n in range(len(HOSTILE))] == HOSTILE


@pytest.mark.parametrize(("generator", "program"), [("Ninja", "ninja"), ("Unix Makefiles", "make")])
@pytest.mark.parametrize("name", ACCEPTED)
def test_an_accepted_home_compiles_links_and_loads(
    tmp_path: Path, name: bytes, generator: str, program: str
) -> None:
    need("cmake", "g++", program)
    home = tmp_path / os.fsdecode(name)
    text = resolve({"switchml_home": str(home)}, {}, "/").switchml_home
    (home / "include").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "include" / "h.h").write_text("int one(); int two();\n")
    (home / "lib" / "one.cpp").write_text("int one() { return 1; }\n")
    (home / "lib" / "two.cpp").write_text("int two() { return 2; }\n")
    run("g++", "-fPIC", "-c", "one.cpp", cwd=home / "lib")
    run("ar", "rcs", "libstatic.a", "one.o", cwd=home / "lib")
    run("g++", "-fPIC", "-shared", "-o", "libother.so", "two.cpp", cwd=home / "lib")
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_bytes(PROJECT % paths.encode(quoting.cmake(text)))
    (project / "shared.cpp").write_text("#include <h.h>\nint three() { return one() + two(); }\n")
    (project / "main.cpp").write_text("int three();\nint main() { return three() - 3; }\n")
    run("cmake", "-S", ".", "-B", "build", "-G", generator, cwd=project)
    run("cmake", "--build", "build", cwd=project)
    run(project / "build" / "main", cwd=project)


@pytest.mark.parametrize("character", REFUSED_IN_HOMES)
def test_a_character_that_does_not_survive_is_refused_by_name(character: str) -> None:
    with pytest.raises(OptionsError) as caught:
        resolve({"switchml_home": f"/a{character}b"}, {}, "/")
    assert f" {character} " in str(caught.value)
