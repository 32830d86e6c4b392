"""Which paths survive CMake, the build tools, the linker and the loader, with the real programs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from support import cmake as support

from patchgen.core.patch import render
from patchgen.options import resolve
from patchgen.system import paths

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
"""
TARGETS = b"""\
set(HOME_DIR %(home)s)
add_library(shared%(number)d SHARED shared.cpp)
target_include_directories(shared%(number)d PRIVATE "${HOME_DIR}/include")
target_link_libraries(
  shared%(number)d PRIVATE "${HOME_DIR}/lib/libstatic.a" "${HOME_DIR}/lib/libother.so")
set_property(TARGET shared%(number)d APPEND PROPERTY BUILD_RPATH "${HOME_DIR}/lib")
add_executable(main%(number)d main.cpp)
target_link_libraries(main%(number)d PRIVATE shared%(number)d)
"""


def test_the_filter_gives_one_argument_that_is_the_value(tmp_path: Path) -> None:
    support.need("cmake")
    lines = [
        "cmake_minimum_required(VERSION 3.5)",
        "function(count)",
        "  if(NOT ARGC EQUAL 1)",
        '    message(FATAL_ERROR "${ARGC} arguments: ${ARGN}")',
        "  endif()",
        "endfunction()",
    ]
    for number, value in enumerate(HOSTILE):
        literal = render.quote_cmake(paths.decode(value))
        lines += [
            f"set(v {literal})",
            f'file(WRITE "{tmp_path}/{number}" "${{v}}")',
            f"count({literal})",
        ]
    (tmp_path / "script.cmake").write_bytes(paths.encode("\n".join(lines) + "\n"))
    support.run("cmake", "-P", tmp_path / "script.cmake")
    assert [(tmp_path / str(n)).read_bytes() for n in range(len(HOSTILE))] == HOSTILE


def test_accepted_homes_compile_link_and_load(tmp_path: Path) -> None:
    """With make, test_switchml_cmake.py has such a home."""
    support.need("cmake", "g++", "ninja")
    made = tmp_path / "made"
    (made / "include").mkdir(parents=True)
    (made / "include" / "h.h").write_text("int one(); int two();\n")
    (made / "two.cpp").write_text("int two() { return 2; }\n")
    support.archive(made / "lib" / "libstatic.a", ["int one() { return 1; }\n"])
    library = made / "lib" / "libother.so"
    support.run("g++", "-fPIC", "-shared", "-o", library, made / "two.cpp")
    lists = PROJECT
    for number, name in enumerate(ACCEPTED):
        home = tmp_path / os.fsdecode(name)
        shutil.copytree(made, home)
        text = resolve({"switchml_home": str(home)}, {}, "/").switchml_home
        lists += TARGETS % {b"home": paths.encode(render.quote_cmake(text)), b"number": number}
    shutil.rmtree(made)
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_bytes(lists)
    (project / "shared.cpp").write_text("#include <h.h>\nint three() { return one() + two(); }\n")
    (project / "main.cpp").write_text("int three();\nint main() { return three() - 3; }\n")
    support.run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja")
    support.run("cmake", "--build", project / "build")
    for number in range(len(ACCEPTED)):
        support.run(project / "build" / f"main{number}")
