"""What is compiled into a graft: who it is for, by real compilers, with any path of a torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.cmake import need
from support.graft import compile_shared, python_run

from patchgen.core.patch import render
from patchgen.extras.install.graft import project
from patchgen.extras.install.graft.identity import Identity, read
from patchgen.extras.install.payload import graft_hook

LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('loaded')"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
# What a file system takes, but a colon, which no run path can hold.
ODD = "é (odd) $x;'q\"&, [b]#%~`w`\\ {z}!*?<t>|=+@ $$ \t"


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    """The library of a torch."""
    path = tmp_path / "lib" / "libtorch_cpu.so.1.2"
    path.parent.mkdir()
    compile_shared(path, "int torch(void) { return 1; }", f"-Wl,-soname,{path.name}")
    with path.open("ab") as file:
        file.write(bytes(200000))
    return path


def guard(compiler: str, standard: int, directory: Path, torch: Path) -> Path:
    """A library that has nothing but the guard, and needs the torch."""
    found = {"version": "1.2", "commit": "c" * 40, "cuda": None, "cxx11_abi": True}
    libraries = {"libtorch_cpu.so": graft_hook.fingerprint(str(torch)), "libtorch_python.so": "1-0"}
    made = Identity(found, libraries, "v1.2", "", '/opt/"x"', cuda=False)
    named = {"identity": graft_hook.MARK.decode() + made.to_json(), "torch": made.title}
    (directory / "guard.cpp").write_text(render.text("graft/guard.cpp"))
    text = render.text("graft/identity.inc", **named, libraries=libraries)
    (directory / "identity.inc").write_text(text)
    path = directory / "guard.so"
    needed = ["-Wl,--no-as-needed", str(torch), f"-Wl,-rpath,{torch.parent}"]
    command = [compiler, f"-std=c++{standard}", *STRICT, str(directory / "guard.cpp"), *needed]
    subprocess.run([*command, "-o", str(path)], check=True)
    assert read(str(path)) == made
    return path


@pytest.mark.parametrize(("compiler", "standard"), [("g++", 14), ("clang++", 17)])
def test_guard(compiler: str, standard: int, tmp_path: Path, torch: Path) -> None:
    need(compiler)
    library = guard(compiler, standard, tmp_path, torch)
    done = python_run(sys.executable, "-c", LOAD, str(library))
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr
    with torch.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    done = python_run(sys.executable, "-c", LOAD, str(library))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "switchml: error: this graft is for torch 1.2 (commit cccccccccccc) only, "
        f"but {torch} is another build; make the graft again with: switchml-patch graft\n"
    )


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_compilers_and_linkers_read_any_path(compiler: str, tmp_path: Path) -> None:
    need(compiler)
    odd, build = tmp_path / ODD, tmp_path / "build"
    for directory in (odd, build):
        directory.mkdir()
    (odd / "odd.h").write_text('extern "C" int odd(void);\n')
    compile_shared(odd / "libodd.so", "int odd(void) { return 7; }", "-Wl,-soname,libodd.so")
    (build / "main.cpp").write_text("#include <odd.h>\nint main() { return odd(); }\n")
    response = project._response
    (build / "compile.rsp").write_bytes(response(["-isystem", str(odd)]))
    (build / "link.rsp").write_bytes(response(["-rpath", str(odd), str(odd / "libodd.so")]))
    command = [compiler, "@compile.rsp", "main.cpp", "-Wl,@link.rsp", "-o", "main"]
    subprocess.run(command, cwd=build, check=True)
    assert subprocess.run([build / "main"], check=False).returncode == 7
