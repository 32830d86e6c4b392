"""check: real homes, a real compiler and linker, and what a user is told to do."""

from __future__ import annotations

import glob
import json
import os
import platform
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from support.programs import script
from support.trees import tool
from support.waiting import has_ended

from patchgen.core.patch import patches, pins
from patchgen.core.wheel import conda
from patchgen.core.wheel.check import ACCEPTABLE, link, programs
from patchgen.core.wheel.check.advice import of_lock, relock
from patchgen.core.wheel.check.facts import Facts, find_client, find_facts
from patchgen.core.wheel.conda import marker
from patchgen.core.wheel.payload import enclosure
from patchgen.core.wheel.request import BuildRequest
from patchgen.options import resolve
from patchgen.system.process import run

SYSTEM = "/usr/bin/python3"
RELEASE = pins.find("v1.13.1", pins.shipped())
LIMITS = {"python": ">=3.9", "gcc": ">=7,<99", "gcc with CUDA": ">=7,<99", "numpy": "<99"}
"""Of a pin that builds with what any Debian has."""
PIN: list[str] = []
"""The option that names this pin."""
CLIENT = """
#include <string>
namespace switchml {
#define BACKEND(name) class name { public: name(); virtual ~name(); virtual void Run(); };
BACKEND(%(backend)s)
%(backend)s::%(backend)s() {}
%(backend)s::~%(backend)s() {}
void %(backend)s::Run() {}
class Config { public: bool LoadFromFile(std::string path); };
bool Config::LoadFromFile(std::string path) { return path == "general.timeout_threshold"; }
class Context { public: static Context& GetInstance(); bool Start(); };
%(more)s
bool Context::Start() { return true; }
Context& Context::GetInstance() { %(call)s static Context one; %(backend)s b; b.Run(); return one; }
}
"""
HEADER = """\
#pragma once
#include <string>
namespace switchml {
class Context { public: static Context& GetInstance(); bool Start(); };
}
"""
FAKE_COMPILER = """\
#!/bin/sh
[ "$*" = "-dM -E -x c++ -" ] || exec g++ "$@"
echo '#define __GNUC__ 4'
echo '#define __GNUC_MINOR__ 8'
echo '#define __GNUC_PATCHLEVEL__ 5'
"""
NOT_HERE = """\
#!/bin/sh
case " $* " in
  *" -lglog "*)
    for name in glog boost_program_options; do
      echo "ld: cannot find -l$name: No such file or directory" >&2
    done
    exit 1
    ;;
esac
exec g++ "$@"
"""


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory in which cmake finds an OpenBLAS."""
    directory = tmp_path_factory.mktemp("blas")
    names = ("sgemm_", "cheev_", "cgesdd_")
    build_library(
        directory / "libopenblas.so", "".join(f'extern "C" void {n}() {{}}\n' for n in names)
    )
    return directory


@pytest.fixture(scope="module", autouse=True)
def pin_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    recipe = {**RELEASE.recipe, "limits": {**RELEASE.recipe["limits"], **LIMITS}}
    path = tmp_path_factory.mktemp("pin") / "pin.json"
    path.write_text(pins.to_json(RELEASE._replace(recipe=recipe)))
    PIN[:] = ["--pytorch", str(path)]


@pytest.fixture(autouse=True)
def plain(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMAKE_LIBRARY_PATH", str(numbers))
    for name in ("CC", "CXX", "CUDA_HOME", "USE_CUDA", "SWITCHML_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def check(*arguments: str, cwd: Path, code: int = 0) -> dict[str, dict[str, Any]]:
    """The rows by name. The build has begun, so a disk without room for all of it is no problem."""
    work = [] if "--work" in arguments else ["--work", str(cwd / "work")]
    if work:
        begun(cwd / "work")
    data = json.loads(tool("check", *PIN, *arguments, *work, "--json", cwd=cwd, code=code).stdout)
    assert data["ok"] == (code == 0)
    rows = {row["name"]: row for row in data["checks"]}
    assert len(rows) == len(data["checks"])
    for row in rows.values():
        assert row["ok"] == (not row["problems"])
    return rows


def begun(work: Path) -> str:
    """A directory of a build that has begun."""
    work.mkdir(exist_ok=True)
    (work / "begun").touch()
    return str(work)


def request_build(tmp_path: Path) -> BuildRequest:
    """Request a build in the environment of this process."""
    options = resolve({}, {}, str(tmp_path))
    work, environ = str(tmp_path / "work"), dict(os.environ)
    return BuildRequest(patches.make(options, RELEASE), work, "", SYSTEM, "", "", environ)


def find(tmp_path: Path) -> Facts:
    """Return facts of the environment of this process. Only what a row needs is asked."""
    request = request_build(tmp_path)
    return Facts(request, find_client(request.options), None)


def problems(rows: dict[str, dict[str, Any]], name: str) -> list[str]:
    found: list[str] = rows[name]["problems"]
    return found


def build_client(home: Path, backend: str, *, call: str = "", more: str = "") -> Path:
    """A small archive with the marks of one backend, compiled for real."""
    (home / "include/switchml").mkdir(parents=True)
    (home / "include/switchml/context.h").write_text(HEADER)
    (home / "include/switchml/common.h").write_text("#pragma once\n")
    (home / "lib").mkdir()
    source, made = home / "client.cc", home / "client.o"
    source.write_text(CLIENT % {"backend": backend, "call": call, "more": more})
    run(["g++", "-std=c++17", "-O1", "-fPIC", "-c", source, "-o", made], limit=None)
    run(["ar", "rcs", home / "lib/libswitchml-client.a", made], limit=None)
    return home


def build_library(path: Path, source: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.parent / f"{path.stem}.cc"
    code.write_text(source)
    run(["g++", "-shared", "-fPIC", code, "-o", path], limit=None)


def build_grpc(home: Path) -> Path:
    for library, module in (("protobuf", "protobuf"), ("grpc++", "grpc++")):
        build_library(home / f"lib/lib{library}.so")
        directory = home / "lib/pkgconfig"
        directory.mkdir(exist_ok=True)
        (directory / f"{module}.pc").write_text(
            f"Name: {module}\nDescription: x\nVersion: 3.2.1\n"
            f"Libs: -L${{pcfiledir}}/.. -l{library}\n"
        )
    return home


def test_a_build_can_start(home: Path, tmp_path: Path) -> None:
    """With any flags, as the library is the simulator."""
    arguments = ["--python", SYSTEM, "--switchml-home", str(home), "--dpdk", "--mlx5"]
    rows = check(*arguments, cwd=tmp_path)
    assert "GRPC_HOME" not in rows
    assert rows["SWITCHML_HOME"]["found"] == str(home)
    assert rows["client library"]["found"].startswith("the simulator")
    assert rows["libraries"]["found"] == "glog, boost_program_options: link"
    assert rows["compiler"]["found"].startswith("gcc 1")
    assert "setuptools" in rows["Python packages"]["found"]
    assert list(rows)[-1] == "work"


def test_a_table_for_people(home: Path, tmp_path: Path) -> None:
    arguments = ["--python", SYSTEM, "--switchml-home", str(home), "--work", begun(tmp_path)]
    done = tool("check", *PIN, *arguments, cwd=tmp_path)
    quoted = shlex.quote(str(home))
    assert done.stderr == f"PyTorch 1.13.1 with SWITCHML_HOME={quoted}: a build can start\n"
    lines = done.stdout.splitlines()
    assert f"[x] SWITCHML_HOME: {home}" in lines
    done = tool("check", *PIN, "--python", "/no", *arguments[2:], cwd=tmp_path, code=6)
    assert done.stderr.endswith(": a build cannot start yet\n")
    assert "[ ] Python\n      --python /no: no such program; name another\n" in done.stdout


def test_nothing_is_written(
    home: Path, tmp_path: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = [home, isolated, *(tmp_path / name for name in ("cwd", "cache"))]
    scratch = tmp_path / "tmp"
    for directory in (scratch, *directories[2:]):
        directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    client = build_client(tmp_path / "client", "DpdkBackend", call="f();", more="void f();")
    work, none = begun(tmp_path / "work"), tmp_path / "none"
    directories += [client, tmp_path / "work"]

    def state() -> dict[str, tuple[int, int]]:
        """A file that comes and goes leaves another time at its directory."""
        paths = [tmp_path, *directories]
        paths += [path for directory in directories for path in directory.rglob("*")]
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}

    before = state()
    for library, python, place, code in (
        (home, ["--python", SYSTEM], work, 0),
        (client, [], work, 6),
        (client, [], str(none), 6),
    ):
        arguments = [*python, "--dpdk", "--switchml-home", str(library)]
        check(*arguments, "--work", place, cwd=tmp_path / "cwd", code=code)
    assert state() == before
    assert list(scratch.iterdir()) == []
    assert not none.exists()
    assert os.stat(os.devnull).st_mode == os.stat("/dev/zero").st_mode


def test_an_empty_home(tmp_path: Path) -> None:
    rows = check("--python", SYSTEM, "--dpdk", cwd=tmp_path, code=6)
    wrong = [name for name, row in rows.items() if row["required"] and not row["ok"]]
    assert {"SWITCHML_HOME", "DPDK_HOME", "GRPC_HOME"} <= set(wrong)
    assert problems(rows, "GRPC_HOME")[-1] == (
        "build gRPC there, or name another place with --grpc-home"
    )
    assert problems(rows, "DPDK_HOME")[-1] == (
        "build DPDK there, or name another place with --dpdk-home"
    )


def test_a_name_that_is_not_utf8(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / os.fsdecode(b"h\xff")
    shutil.copytree(home, copy)
    rows = check("--python", SYSTEM, "--switchml-home", str(copy), cwd=tmp_path)
    assert rows["SWITCHML_HOME"]["found"] == f"{tmp_path}/h\\xff"


def test_flags_of_another_archive(tmp_path: Path) -> None:
    home = build_client(tmp_path / "home", "DpdkBackend")
    rows = check("--python", SYSTEM, "--switchml-home", str(home), cwd=tmp_path, code=6)
    assert rows["client library"]["found"] == "built with DPDK"
    assert problems(rows, "client library") == [
        f"{home}/lib/libswitchml-client.a was built with DPDK=1, but this patch was made without.",
        "Apply the patch again with --dpdk (and the flags of the network card).",
    ]


def dpdk_site(root: Path, *, call: str, more: str) -> list[str]:
    """Homes in which all is there, each library of a few bytes."""
    client = build_client(root / "client", "DpdkBackend", call=call, more=more)
    dpdk, grpc = root / "a dpdk", build_grpc(root / "a grpc")
    build_library(dpdk / "lib/libdpdk.so", 'extern "C" int rte_eal_init() { return 0; }')
    (dpdk / "include").symlink_to("/usr/include")  # as of --dpdk-home /usr
    for name in ("glog", "boost_program_options", "numa", "ibverbs", "mlx5", "mnl"):
        build_library(dpdk / f"lib/lib{name}.so")
    homes = {"switchml": client, "dpdk": dpdk, "grpc": grpc}
    return [argument for name, home in homes.items() for argument in (f"--{name}-home", str(home))]


def test_a_whole_dpdk_site(tmp_path: Path) -> None:
    more = '} extern "C" int rte_eal_init(); namespace switchml {'
    site = dpdk_site(tmp_path, call="rte_eal_init();", more=more)
    rows = check("--python", SYSTEM, "--dpdk", "--mlx5", *site, cwd=tmp_path)
    assert rows["client library"]["found"] == "built with DPDK"
    assert rows["DPDK_HOME"]["found"] == f"{tmp_path}/a dpdk, libdpdk.so"
    expected = f"{tmp_path}/a grpc: protobuf 3.2.1, grpc++ 3.2.1, shared"
    assert rows["GRPC_HOME"]["found"] == expected
    assert rows["libraries"]["found"] == (
        "dpdk, glog, boost_program_options, numa, ibverbs, mlx5, mnl: link"
    )


def test_a_driver_that_the_flags_leave_out(tmp_path: Path) -> None:
    more = '} extern "C" int mlx5dv_init_obj(); namespace switchml {'
    site = dpdk_site(tmp_path, call="mlx5dv_init_obj();", more=more)
    rows = check("--python", SYSTEM, "--dpdk", *site, cwd=tmp_path, code=6)
    assert problems(rows, "libraries") == [
        "undefined: mlx5dv_init_obj",
        "DPDK was built with the mlx5 driver; add --mlx5",
    ]


def test_a_pc_file_that_needs_another(tmp_path: Path) -> None:
    site = dpdk_site(tmp_path, call="", more="")
    with (tmp_path / "a grpc/lib/pkgconfig/grpc++.pc").open("a") as file:
        file.write("Requires: no-such-module\n")
    rows = check("--python", SYSTEM, "--dpdk", *site, cwd=tmp_path, code=6)
    assert any("no-such-module" in line for line in problems(rows, "GRPC_HOME"))


def test_a_header_that_is_not_here(tmp_path: Path) -> None:
    home = build_client(tmp_path / "home", "DummyBackend")
    (home / "include/switchml/context.h").write_text("#include <glog/not_there.h>\n")
    rows = check("--python", SYSTEM, "--switchml-home", str(home), cwd=tmp_path, code=6)
    assert problems(rows, "headers of the client library") == [
        "no <glog/not_there.h>; install libgoogle-glog-dev (Debian) or glog-devel (RHEL)"
    ]


BLAS = ACCEPTABLE["no-blas"]
INSTALL = (
    "install libopenblas-dev (Debian) or openblas-devel (RHEL), or build without: --accept no-blas"
)


def test_blas_and_lapack(
    home: Path, numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--python", SYSTEM, "--switchml-home", str(home)]
    found = check(*arguments, cwd=tmp_path)[BLAS]["found"]
    assert found == f"{numbers}/libopenblas.so"
    alone = tmp_path / "alone"
    build_library(alone / "libopenblas.so", 'extern "C" void sgemm_() {}\n')
    monkeypatch.setenv("CMAKE_LIBRARY_PATH", str(alone))
    rows = check(*arguments, cwd=tmp_path, code=6)
    assert problems(rows, BLAS)[0].startswith("no LAPACK in or beside it; ")
    rows = check(*arguments, "--accept", "no-blas", cwd=tmp_path)
    assert problems(rows, BLAS)[-1] == INSTALL
    assert not rows[BLAS]["required"]
    assert rows[BLAS]["found"].endswith("libopenblas.so, accepted by --accept no-blas")


@pytest.mark.skipif(
    bool(glob.glob("/usr/lib/*/lib*blas.so")), reason="this system has a BLAS to build with"
)
def test_no_blas(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CMAKE_LIBRARY_PATH")
    arguments = ["--python", SYSTEM, "--switchml-home", str(home)]
    rows = check(*arguments, cwd=tmp_path, code=6)
    assert problems(rows, BLAS) == [
        (
            "no library of BLAS; products of matrices are slow without, and torch.svd and its like "
            "raise"
        ),
        INSTALL,
    ]


@pytest.mark.parametrize(
    ("variable", "text", "problem"),
    [
        ("CXX", FAKE_COMPILER, "gcc 4.8.5: PyTorch 1.13.1 builds with >=7,<13; "),
        ("CXX", "#!/bin/sh\nexit 1\n", "PATH -dM -E -x c++ -: return code 1"),
        ("CXX", None, "PATH: no such compiler; install one or set CXX"),
        ("CC", None, "PATH: no such compiler; install one or set CC"),
    ],
)
def test_compilers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    variable: str, text: str | None, problem: str,
) -> None:  # fmt: skip
    path = str(tmp_path / "compiler")
    if text is not None:
        script(tmp_path / "compiler", text)
    monkeypatch.setenv(variable, path)
    row = programs.check_compilers(find(tmp_path))
    assert row.required
    assert row.problems[0].startswith(problem.replace("PATH", path))
    assert "install gcc >=7,<13 and set CC and CXX to it" in row.problems[-1]


def test_clang_is_reported_and_not_refused(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "clang++")
    rows = check("--python", SYSTEM, "--switchml-home", str(home), cwd=tmp_path)
    assert rows["compiler"]["found"].startswith("clang ")
    assert rows["compiler"]["found"].endswith("PyTorch 1.13.1 is known to build with gcc >=7,<99")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("cmake", "#!/bin/sh\necho cmake version 4.0.1\n",
         "cmake 4.0.1: PyTorch 1.13.1 builds with >="),
        ("cmake3", "#!/bin/sh\necho cmake3 version 3.1.0\n",
         "cmake 3.1.0: PyTorch 1.13.1 builds with >="),
        ("cmake", "#!/bin/sh\necho broken >&2; exit 3\n", "PATH --version: return code 3"),
        ("ninja", "#!/bin/sh\n", "PATH: does not say its version"),
        ("git", "#!/bin/sh\necho git version 2.20.1\n",
         "git 2.20.1: fetching the source takes 2.29 or later; install a later one"),
    ],
)  # fmt: skip
def test_programs_of_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, problem: str,
) -> None:  # fmt: skip
    path = str(script(tmp_path / "bin" / name, text))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    checks = {"ninja": programs.check_ninja, "git": programs.check_git}
    row = checks.get(name, programs.check_cmake)(find(tmp_path))
    assert row.required
    assert row.problems[0].startswith(problem.replace("PATH", path))


def test_no_programs_at_all(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = check("--python", SYSTEM, "--switchml-home", str(home), cwd=tmp_path, code=6)
    assert problems(rows, "compiler")[0] == "c++: no such compiler; install one or set CXX"
    for name in ("cmake", "ninja", "git"):
        assert "on PATH; " in problems(rows, name)[0]
    assert "libraries" not in rows


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("echo 'Cuda compilation tools, release 11.7, V11.7.99'", None),
        ("echo 'Cuda compilation tools, release 10.1, V10.1.243'",
         ("CUDA 10.1.243: PyTorch 1.13.1 builds with >=11.6,<12; set CUDA_HOME to a CUDA "
         ">=11.6,<12, or USE_CUDA=0 to build without")),
        (None, ("no CUDA/bin/nvcc; set CUDA_HOME to a CUDA >=11.6,<12, or USE_CUDA=0 to build "
         "without")),
    ],
)  # fmt: skip
def test_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, problem: str | None,
) -> None:  # fmt: skip
    if text:
        script(tmp_path / "bin/nvcc", f"#!/bin/sh\n{text}\n")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    row = programs.check_nvcc(find(tmp_path))
    expected = [problem.replace("CUDA/", f"{tmp_path}/")] if problem else []
    assert [*row.problems] == expected
    assert row.required
    monkeypatch.setenv("USE_CUDA", "0")
    row = programs.check_nvcc(find(tmp_path))
    assert row.ok


HANGS = """#!/bin/sh
sleep 600 & echo "$!" >"$0.part"; mv "$0.part" "$0.pid"; wait
"""


def test_a_program_that_hangs_is_waited_for_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = script(tmp_path / "cmake", HANGS).with_suffix(".pid")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    facts = find_facts(request_build(tmp_path), limit=2)
    row = programs.check_cmake(facts)
    assert row.problems[0] == f"{tmp_path}/cmake --version: no answer in 2 s"
    (libraries,) = link.check_libraries(facts)
    assert libraries.problems[0] == row.problems[0]
    ninja = programs.check_ninja(facts)
    assert ninja.ok
    assert not started.exists() or has_ended(started.read_text().strip())


@pytest.mark.parametrize(
    ("generator", "there", "row", "problems"),
    [
        ("", "make", "ninja (optional)", "not on PATH; make builds as well, but slower"),
        ("Ninja", "make", "ninja", "not on PATH; "),
        ("Unix Makefiles", "ninja", "make", "not on PATH; install it, or unset CMAKE_GENERATOR"),
        ("Unix Makefiles", "make", "make", ""),
    ],
)
def test_the_program_of_a_generator(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    generator: str,
    there: str,
    row: str,
    problems: str,
) -> None:
    script(tmp_path / there, "#!/bin/sh\necho 1.11.1\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CMAKE_GENERATOR", generator)
    found = programs.check_ninja(find(tmp_path))
    assert found.name == row
    assert "; ".join(found.problems).startswith(problems)
    assert found.required == bool(generator)


def test_an_interpreter_with_nothing(home: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    run([sys.executable, "-m", "venv", "--without-pip", str(venv)], limit=None)
    path = str(venv / "bin/python")
    rows = check("--python", path, "--switchml-home", str(home), cwd=tmp_path, code=6)
    install = f"run: {path} -m ensurepip && {path} -m pip install"
    assert f"wheel: not there; {install} wheel" in problems(rows, "Python packages")
    assert rows["numpy (optional)"]["problems"] == [
        f"not there: torch is built without from_numpy() and numpy(); {install} 'numpy<99'"
    ]
    assert not rows["numpy (optional)"]["required"]


def test_no_lock(home: Path, tmp_path: Path) -> None:
    arguments = ["--switchml-home", str(home), "--lock", "none/conda-lock.yml"]
    rows = check(*arguments, cwd=tmp_path, code=6)
    assert "--python PYTHON" in problems(rows, "environment")[-1]
    assert not {"Python", "compiler", "cmake", "ninja", "CUDA", "libraries"} & set(rows)
    assert rows["git"]["ok"]


def write_lock(path: Path, versions: dict[str, str]) -> str:
    name = conda.platform()  # of conda
    packages = [
        {"name": package, "version": version, "manager": "conda", "platform": name,
         "dependencies": {}, "url": f"https://example.org/{name}/{package}-{version}-0.conda",
         "hash": {"md5": "0" * 32, "sha256": "0" * 64},
         "category": "main", "optional": False}
        for package, version in versions.items()
    ]  # fmt: skip
    metadata = {"content_hash": {name: ""}, "channels": [], "platforms": [name], "sources": []}
    path.write_text(json.dumps({"version": 1, "metadata": metadata, "package": packages}))
    return str(path)


LOCKED = {
    "python": "3.10.4", "gxx_linux-64": "10.4.0", "cmake": "3.26.4", "ninja": "1.11.1",
    "setuptools": "59.8.0", "wheel": "0.38.4", "numpy": "1.22.4", "glog": "0.5.0",
    "boost-cpp": "1.74.0", "pyyaml": "6.0", "typing_extensions": "4.5.0", "cffi": "1.15.0",
    "mkl": "2020.4", "mkl-include": "2020.4",
}  # fmt: skip
needs_env = pytest.mark.skipif(sys.version_info < (3, 10), reason="env needs Python 3.10")


@needs_env
def test_the_lock_decides_before_there_is_a_prefix(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nonexistent")  # does not count: the lock has a compiler
    arguments = ["--switchml-home", str(home), "--lock"]
    rows = check(*arguments, write_lock(tmp_path / "lock", LOCKED), cwd=tmp_path)
    assert rows["compiler"]["found"] == of_lock("gcc 10.4.0")
    assert rows["libraries"]["found"] == "glog 0.5.0, boost-cpp 1.74.0"
    assert rows["environment"]["found"].endswith(f"will be made in {tmp_path}/work/env")
    lock = write_lock(tmp_path / "lock", {**LOCKED, "gxx_linux-64": "99.2.0"})
    rows = check(*arguments, lock, cwd=tmp_path, code=6)
    assert problems(rows, "compiler")[0].startswith("gcc 99.2.0: PyTorch 1.13.1 builds with >=7")


@needs_env
def test_a_prefix_is_linked_in(home: Path, tmp_path: Path) -> None:
    from patchgen.core.wheel.conda import lockfile  # of the extra env

    prefix, lock = tmp_path / "work/env", write_lock(tmp_path / "lock", LOCKED)
    arguments = ["--switchml-home", str(home), "--lock", lock]
    for name in ("c++", "cc"):
        script(prefix / f"bin/{platform.machine()}-conda-linux-gnu-{name}", NOT_HERE)
    assert check(*arguments, cwd=tmp_path)["libraries"]["found"].endswith("boost-cpp 1.74.0")
    identity = lockfile.read(lock).identity
    named = f"{enclosure.PATH}/env"
    marker.write(str(prefix), marker.Marker(identity, whole=True, named=named))
    rows = check(*arguments, cwd=tmp_path, code=6)
    assert rows["environment"]["found"].endswith(f", in {prefix}")
    assert problems(rows, "libraries")[0] == f"no library glog; {relock('put glog')}"
