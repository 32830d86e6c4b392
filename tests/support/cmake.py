"""Miniature projects of PyTorch's shape, one for each pin, and homes to link them with.

For switchml.cmake: which targets, options and libraries it gives CMake, with each flag and both
generators. CMake, compilers and linkers are real; PyTorch itself takes an hour to compile.
"""

from __future__ import annotations

import json
import os
import shutil
import string
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from patchgen.core.patch import pins, render
from patchgen.core.patch.pins import Pin
from patchgen.options import REFUSED_IN_HOMES, Options, resolve

MAKERS = {"Ninja": "ninja", "Unix Makefiles": "make"}
SOURCES = ("Store.cpp", "Utils.cpp", "ProcessGroupGloo.cpp")
OURS = "unity.cpp"

# As in PyTorch, and stricter: the linker drops libraries that stand before their user, and reports
# undefined symbols at once.
SETTINGS = """\
set(CMAKE_CXX_STANDARD 14)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_RPATH $ORIGIN)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH TRUE)
set(CMAKE_SHARED_LINKER_FLAGS -Wl,--as-needed,-z,defs)
set(USE_DISTRIBUTED ON)
set(USE_GLOO ON)
option(USE_C10D_GLOO "" ON)
"""
PROJECTS = {
    "v1.7.1": {
        "CMakeLists.txt": f"""\
cmake_minimum_required(VERSION 3.5 FATAL_ERROR)
project(miniature CXX)
{SETTINGS}
add_subdirectory(torch/lib/c10d lib_c10d)
add_library(torch_python SHARED module.cpp)
target_link_libraries(torch_python PRIVATE c10d)
install(TARGETS torch_python DESTINATION lib)
""",
        "torch/lib/c10d/CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.2 FATAL_ERROR)
set(C10D_SRCS Store.cpp Utils.cpp)
if(USE_C10D_GLOO)
  list(APPEND C10D_SRCS ProcessGroupGloo.cpp)
endif()
add_library(c10d STATIC ${C10D_SRCS})
set_property(TARGET c10d PROPERTY POSITION_INDEPENDENT_CODE ON)
set_property(TARGET c10d PROPERTY CXX_STANDARD 14)
target_include_directories(c10d PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/..)
target_link_libraries(c10d PUBLIC m)
@HOOK@
install(TARGETS c10d DESTINATION lib)
""",
        "module.cpp": "int gloo();\nint module() { return gloo(); }\n",
    },
    "v1.13.1": {
        "CMakeLists.txt": f"""\
cmake_minimum_required(VERSION 3.13 FATAL_ERROR)
project(miniature CXX)
{SETTINGS}
set(TORCH_SRC_DIR ${{CMAKE_CURRENT_SOURCE_DIR}}/torch)
add_subdirectory(caffe2)
""",
        "caffe2/CMakeLists.txt": """\
set(C10D ${TORCH_SRC_DIR}/csrc/distributed/c10d)
add_library(torch_cpu SHARED ${C10D}/Store.cpp ${C10D}/Utils.cpp)
target_include_directories(torch_cpu PRIVATE ${TORCH_SRC_DIR}/..)
if(USE_PRECOMPILED_HEADERS)
  target_precompile_headers(torch_cpu PRIVATE ${TORCH_SRC_DIR}/pch.h)
endif()
if(USE_DISTRIBUTED)
  target_compile_definitions(torch_cpu PUBLIC USE_DISTRIBUTED)
  if(USE_GLOO AND USE_C10D_GLOO)
    target_sources(torch_cpu PRIVATE ${C10D}/ProcessGroupGloo.cpp)
    target_compile_definitions(torch_cpu PUBLIC USE_C10D_GLOO)
@HOOK@
  endif()
endif()
target_link_libraries(torch_cpu PUBLIC m)
target_include_directories(torch_cpu INTERFACE $<INSTALL_INTERFACE:include>)
install(TARGETS torch_cpu EXPORT Caffe2Targets DESTINATION lib)
install(EXPORT Caffe2Targets FILE Caffe2Targets.cmake DESTINATION share/cmake/Caffe2)
""",
        "torch/pch.h": "#define LOG(severity) collides with glog\n",
    },
}
SMALL = Path(__file__).parents[1] / "cpp" / "small_delegate.cpp"
# Of the client library's headers, what SMALL needs. The simulator's own take a second to compile.
HEADERS = {
    "common.h": "#define SWITCHML_SIMULATOR 1\n",
    "context.h": """\
#pragma once
#include <iosfwd>

#include "common.h"

namespace switchml {

class Config {
 public:
  bool LoadFromFile(std::string path);
};

class Context {
 public:
  static Context& GetInstance();
  bool Start(Config* config = nullptr);

 private:
  Context();
  ~Context();
};

}  // namespace switchml
""",
}
LIBRARIES = {"v1.7.1": "torch_python", "v1.13.1": "torch_cpu"}
HOSTILE = "ünï 日本 " + "".join(sorted({*string.punctuation} - {*REFUSED_IN_HOMES, "/"}))

ASK = """\
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.switchml_delegate_report.restype = ctypes.c_size_t
buffer = ctypes.create_string_buffer(4096)
library.switchml_delegate_report(buffer, ctypes.c_size_t(4096))
print(buffer.value.decode())
"""


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}: apt-get install cmake ninja-build g++ clang make")


def run(*command: str | Path, ok: bool = True) -> str:
    """Return a program's output, in the user's environment without LD_LIBRARY_PATH."""
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        command, check=False, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output = done.stdout.decode(errors="replace")
    assert (done.returncode == 0) == ok, output
    return output


@dataclass(frozen=True)
class Project:
    """A miniature with the new files in it, and its build folder."""

    root: Path
    pin: Pin

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def library(self) -> str:
        return f"lib{LIBRARIES[self.pin.name]}.so"

    @property
    def built(self) -> Path:
        """The library of torch, which opens the one of the delegate beside it."""
        return self.build / "lib" / self.library

    @property
    def delegate(self) -> Path:
        return self.build / "lib" / render.LIBRARY

    def patch(self, options: Options) -> None:
        """Apply the patch with these flags: nothing else changes."""
        (self.root / render.flags_path(self.pin)).write_bytes(render.flags_file(options, self.pin))

    def configure(self, *arguments: str, ok: bool = True) -> str:
        """Return CMake's output, each run of white space as one blank: CMake wraps its messages."""
        output = run("cmake", "-S", self.root, "-B", self.build, *arguments, ok=ok)
        return " ".join(output.split())

    def make(self, *, ok: bool = True) -> str:
        return run("cmake", "--build", self.build, "--parallel", "2", ok=ok)

    def plan(self) -> list[str]:
        """Return the steps that ninja would run, a line each."""
        lines = run("ninja", "-C", self.build, "-n").splitlines()
        return [line.split("] ", 1)[1] for line in lines if line.startswith("[")]

    def cached(self, name: str) -> str:
        lines = (self.build / "CMakeCache.txt").read_text().splitlines()
        return next(line.split("=", 1)[1] for line in lines if line.startswith(f"{name}:"))

    def command(self, source: str) -> list[str]:
        """Return the arguments that a source file is compiled with."""
        entries = json.loads((self.build / "compile_commands.json").read_text())
        commands = [entry["command"] for entry in entries if Path(entry["file"]).name == source]
        assert len(commands) == 1, source
        return run("sh", "-c", f"printf '%s\\n' {commands[0]}").splitlines()

    def sources(self) -> set[str]:
        entries = json.loads((self.build / "compile_commands.json").read_text())
        return {Path(entry["file"]).name for entry in entries}


def project(root: Path, pin: Pin, options: Options) -> Project:
    """Write the miniature of a pin, with a small stand-in for the delegate.

    All of the delegate is compiled by g++ in builds, and by clang++ in grafts and plugins.
    """
    files = dict(PROJECTS[pin.name])
    include = f"#include <{pin.include_prefix}/SwitchMLAllreduce.hpp>\n"
    for name in SOURCES:
        stem = name.split(".")[0]
        files[f"{pin.source_dir}/{name}"] = f"int {stem.lower()}() {{ return 0; }}\n"
    files[f"{pin.source_dir}/ProcessGroupGloo.cpp"] = (
        include + "int gloo() { return switchml_delegate::delegate() != nullptr; }\n"
    )
    hook = render.hooks(pin)["cmake"].decode().rstrip("\n")
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content.replace("@HOOK@", hook))
    for name, new in render.new_files(options, pin).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(new)
    shutil.copy(SMALL, root / render.PROJECT / "src" / OURS)
    return Project(root, pin)


def shipped(name: str) -> Pin:
    return pins.find(name, pins.shipped())


def options(home: Path, *flags: str, **homes: Path) -> Options:
    given: dict[str, bool | str | None] = {"switchml_home": str(home)}
    given.update({key: str(value) for key, value in homes.items()})
    given.update(dict.fromkeys(flags, True))
    return resolve(given, {}, "/nowhere")


def report(library: Path) -> dict[str, Any]:
    """Return the report of a library that a fresh process loads."""
    answer: dict[str, Any] = json.loads(run(sys.executable, "-c", ASK, library))
    return answer


def run_path(library: Path) -> list[str]:
    output = run("readelf", "-d", "--wide", library)
    found = [line for line in output.splitlines() if "(RUNPATH)" in line or "(RPATH)" in line]
    assert len(found) == 1, output
    return found[0].split("[", 1)[1].rsplit("]", 1)[0].split(":")


def archive(path: Path, sources: Sequence[str], *flags: str) -> None:
    """Make an archive of one object for each source in C++."""
    path.parent.mkdir(parents=True, exist_ok=True)
    objects = []
    for number, text in enumerate(sources):
        source = path.with_suffix(f".{number}.cpp")
        source.write_text(text)
        objects.append(path.with_suffix(f".{number}.o"))
        run("g++", "-fPIC", *flags, "-c", source, "-o", objects[-1])
    path.unlink(missing_ok=True)
    run("ar", "rcs", path, *objects)


def with_small_headers(home: Path, simulator: Path) -> Path:
    """Return a home with the simulator's code and HEADERS."""
    shutil.copytree(simulator, home, ignore=shutil.ignore_patterns("switchml"))
    headers = home / "include" / "switchml"
    headers.mkdir(parents=True)
    for name, text in HEADERS.items():
        (headers / name).write_text(text)
    return home


def client(home: Path, simulator: Path, text: str = "", *flags: str) -> Path:
    """Return a home with the simulator's headers and code, which is not marked as simulator."""
    headers = home / "include" / "switchml"
    shutil.copytree(simulator / "include" / "switchml", headers)
    common = headers / "common.h"
    common.write_text(common.read_text().replace("#define SWITCHML_SIMULATOR 1\n", ""))
    out = home / "lib" / "libswitchml-client.a"
    extra = home / "extra.a"
    archive(extra, [text], *flags)
    out.parent.mkdir()
    whole = [simulator / "lib" / "libswitchml-client.a", extra]
    joined = home / "client.o"
    run("ld", "-r", "--whole-archive", *whole, "-o", joined)
    run("ar", "rcs", out, joined)
    return home


def backend(name: str, *needs: str) -> str:
    """Return the code of a backend that calls functions of other libraries."""
    declared = "".join(f'extern "C" int {need}();\n' for need in needs)
    body = " + ".join([*(f"{need}()" for need in needs), "0"])
    return (
        f"{declared}namespace switchml {{ struct {name}Backend {{ int Start(); }};\n"
        f"int {name}Backend::Start() {{ return {body}; }} }}\n"
    )


def grpc(home: Path, *modules: str) -> Path:
    """Return a gRPC of one function for each module, in shared libraries with .pc files."""
    config = home / "lib" / "pkgconfig"
    config.mkdir(parents=True)
    for module in modules:
        name = module.replace("+", "p")
        source = home / f"{name}.cpp"
        source.write_text(f'extern "C" int fake_{name}() {{ return 7; }}\n')
        library = home / "lib" / f"lib{module}.so"
        soname = f"-Wl,-soname,lib{module}.so"
        run("g++", "-fPIC", "-shared", soname, source, "-o", library)
        (config / f"{module}.pc").write_text(
            f"prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n"
            f"Name: {module}\nDescription: fake\nVersion: 1\n"
            f"Libs: -L${{libdir}} -l{module}\nCflags: -I${{includedir}}\n"
        )
    return home


def dpdk(home: Path) -> Path:
    """Return a DPDK with one driver that registers itself, and the libraries that it needs."""
    (home / "include").mkdir(parents=True)
    core = 'int drivers;\nextern "C" int fake_drivers() { return drivers; }\n'
    driver = "extern int drivers;\n[[gnu::constructor]] static void add() { ++drivers; }\n"
    archive(home / "lib" / "libdpdk.a", [core, driver])
    for name in ("numa", "ibverbs", "mlx4", "mlx5", "mnl"):
        archive(home / "lib" / f"lib{name}.a", [f'extern "C" int fake_{name}() {{ return 1; }}\n'])
    return home
