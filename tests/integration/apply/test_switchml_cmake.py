"""switchml.cmake in miniature projects of PyTorch's shape, with real build tools and compilers."""

from __future__ import annotations

import functools
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import pytest
from support import cmake as support
from support.programs import script

from patchgen.core.patch import render
from patchgen.options import Options

PINS = ("v1.7.1", "v1.13.1")
FLAGS = {"plain": (), "dpdk": ("dpdk", "mlx5"), "rdma": ("rdma",)}


@dataclass(frozen=True)
class Build:
    pin: str
    generator: str
    compiler: str
    flags: tuple[str, ...]
    home: str


BUILDS = {
    "v1.7.1-ninja-g++": Build("v1.7.1", "Ninja", "g++", ("dpdk", "mlx5"), "plain"),
    "v1.13.1-ninja-g++": Build("v1.13.1", "Ninja", "g++", ("rdma",), "plain"),
    "v1.13.1-make-clang++": Build(
        "v1.13.1", "Unix Makefiles", "clang++", ("debug",), support.HOSTILE
    ),
}


@pytest.fixture(scope="session")
def simulator(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    support.need("cmake", "ninja", "g++")
    return support.with_small_headers(tmp_path_factory.mktemp("simulator") / "home", home)


@dataclass(frozen=True)
class Built:
    build: Build
    home: Path
    project: support.Project


@pytest.fixture(scope="session")
def builds(
    home: Path, simulator: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Built]:
    """Makes each build, one of them with the simulator's own headers, when it is asked for."""
    support.need("cmake")

    @functools.cache
    def make(name: str) -> Built:
        build = BUILDS[name]
        support.need(support.MAKERS[build.generator], build.compiler)
        directory = tmp_path_factory.mktemp("built")
        own = directory / build.home
        shutil.copytree(home if build.home == support.HOSTILE else simulator, own)
        options = support.options(own, *build.flags)
        pin = support.shipped(build.pin)
        project = support.project(directory / "project", pin, options)
        project.configure("-G", build.generator, f"-DCMAKE_CXX_COMPILER={build.compiler}")
        project.make()
        return Built(build, own, project)

    return make


@pytest.fixture(params=BUILDS)
def built(request: pytest.FixtureRequest, builds: Callable[[str], Built]) -> Built:
    return builds(request.param)


def configured(
    root: Path, options: Options, *arguments: str, pin: str = "v1.13.1"
) -> support.Project:
    """A project in a new directory, with the compiler of BUILDS: ccache tells g++ from c++."""
    project = support.project(root / "project", support.shipped(pin), options)
    project.configure("-G", "Ninja", "-DCMAKE_CXX_COMPILER=g++", *arguments)
    return project


@pytest.fixture(scope="session")
def tree(simulator: Path, tmp_path_factory: pytest.TempPathFactory) -> support.Project:
    """A configured tree, for tests that only configure again."""
    return configured(tmp_path_factory.mktemp("tree"), support.options(simulator))


# ---- what is built ------------------------------------------------------------------------------


def test_the_library_loads_and_tells_its_flags(built: Built) -> None:
    message = support.report(built.project.built)
    assert message["flags"] == " ".join(flag.upper() for flag in built.build.flags)
    assert message["simulator"] is True


def test_only_the_delegate_sees_switchml(built: Built) -> None:
    ours = built.project.command(support.OURS)
    assert [argument for argument in ours if argument.startswith("-std=")][-1] == "-std=c++17"
    assert {f"-I{built.home / 'include'}", "-DTIMEOUTS"} <= {*ours}
    loader = built.project.command("SwitchMLLoader.cpp")
    assert [argument for argument in loader if argument.startswith("-std=")] == ["-std=gnu++14"]
    assert not [a for a in loader if str(built.home) in a or "TIMEOUTS" in a]
    for source in support.SOURCES:
        others = built.project.command(source)
        assert [argument for argument in others if argument.startswith("-std=")] == ["-std=gnu++14"]
        assert not [a for a in others if str(built.home) in a or "SWITCHML" in a or "TIMEOUTS" in a]


def test_torch_links_nothing_of_switchml(built: Built) -> None:
    dynamic = support.run("readelf", "-d", "--wide", built.project.built)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert not [name for name in needed if re.search("switchml|glog|boost|grpc|protobuf", name)]
    assert str(built.home) not in dynamic


def test_the_delegate_exports_one_function(built: Built) -> None:
    defined = support.run("nm", "-D", "--defined-only", built.project.delegate).split("\n")
    assert [line.split()[-1] for line in defined if line] == ["switchml_delegate_interface"]


def test_a_library_that_cannot_be_used(builds: Callable[[str], Built], tmp_path: Path) -> None:
    project = builds("v1.7.1-ninja-g++").project
    library, content = tmp_path / render.LIBRARY, project.delegate.read_bytes()
    torch = Path(shutil.copy(project.built, tmp_path))
    gone = f"{library}: cannot open shared object file: No such file or directory"
    assert support.report(torch)["problem"] == gone
    sources = support.report(project.built)["sources"].encode()
    library.write_bytes(content.replace(sources, b"0" * len(sources)))
    assert support.report(torch)["problem"] == f"{library.name} was compiled from other sources"
    library.write_bytes(content)
    assert support.report(torch)["problem"] == ""


def test_a_process_has_one_delegate(builds: Callable[[str], Built], tmp_path: Path) -> None:
    project = builds("v1.7.1-ninja-g++").project
    for path in (project.built, project.delegate):
        shutil.copy(path, tmp_path)
    code = (
        "import ctypes, sys\n"
        "for name in sys.argv[1:]: ctypes.CDLL(name).switchml_delegate_report(None, 0)\n"
        "found = {line.split()[-1] for line in open('/proc/self/maps')}\n"
        "print(*(path for path in found if path.endswith('/libswitchml_delegate.so')))"
    )
    both = (project.built, tmp_path / project.library)
    assert support.run(sys.executable, "-c", code, *both).split() == [str(project.delegate)]


def test_debug_is_for_the_delegate_only(built: Built) -> None:
    debug = "debug" in built.build.flags
    ours = built.project.command(support.OURS)
    for argument in ("-O0", "-g", "-DSWITCHML_DELEGATE_DEBUG"):
        assert (argument in ours) == debug
    for source in support.SOURCES:
        assert not {"-O0", "-g"} & {*built.project.command(source)}


def test_the_run_path_survives_the_installation(built: Built, tmp_path: Path) -> None:
    home = str(built.home / "lib")
    assert home in support.run_path(built.project.delegate)
    support.run("cmake", "--install", built.project.build, "--prefix", tmp_path / "prefix")
    installed = tmp_path / "prefix" / "lib"
    assert home in support.run_path(installed / render.LIBRARY)
    assert support.report(installed / built.project.library)["simulator"] is True


def test_nothing_reaches_the_users_of_torch_cpu(
    builds: Callable[[str], Built], tmp_path: Path
) -> None:
    built = builds("v1.13.1-ninja-g++")
    support.run("cmake", "--install", built.project.build, "--prefix", tmp_path)
    (exported,) = tmp_path.rglob("Caffe2Targets.cmake")
    text = exported.read_text()
    properties = re.findall(r"(?m)^ +(INTERFACE_\w+) +\"(.*)\"$", text)
    assert dict(properties)["INTERFACE_LINK_LIBRARIES"] == "m"
    assert dict(properties)["INTERFACE_COMPILE_DEFINITIONS"] == "USE_DISTRIBUTED;USE_C10D_GLOO"
    assert "LINK_OPTIONS" not in text
    assert "LINK_DIRECTORIES" not in text
    for word in (str(built.home), "switchml", "glog", "boost"):
        assert word not in text.lower()


def test_a_precompiled_header_does_not_meet_switchml(simulator: Path, tmp_path: Path) -> None:
    options = support.options(simulator)
    project = configured(tmp_path, options, "-DUSE_PRECOMPILED_HEADERS=ON")
    assert "cmake_pch" in " ".join(project.command("Store.cpp"))
    assert "cmake_pch" not in " ".join(project.command(support.OURS))


# ---- other homes --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in BUILDS if "ninja" in name])
def test_another_home_compiles_and_links_one_library(
    builds: Callable[[str], Built], tmp_path: Path, name: str
) -> None:
    built = builds(name)
    project, flags = built.project, built.build.flags
    assert project.plan() == []
    shutil.copytree(built.home, tmp_path / "other")
    project.patch(support.options(tmp_path / "other", *flags))
    try:
        project.configure()
        steps = project.plan()
    finally:
        project.patch(support.options(built.home, *flags))
        project.configure()
    assert len(steps) == 2
    assert " CXX object " in steps[0]
    assert support.OURS in steps[0]
    assert " shared library " in steps[1]
    assert render.LIBRARY in steps[1]
    assert project.plan() == []


def test_configuring_again_changes_nothing_that_the_linker_reads(tree: support.Project) -> None:
    """A linker of today tells ninja all that it has read."""
    (exports,) = tree.build.rglob("exports")
    before = exports.stat().st_mtime_ns
    tree.configure()
    assert exports.stat().st_mtime_ns == before


def test_a_moved_library_is_found_without_a_new_patch(
    simulator: Path, tree: support.Project, tmp_path: Path
) -> None:
    shutil.copytree(simulator, tmp_path / "moved")
    tree.patch(support.options(tmp_path / "gone"))
    assert "-DSWITCHML_HOME=DIR" in tree.configure("-USWITCHML_HOME", ok=False)
    moved = str(tmp_path / "moved")
    tree.configure(f"-DSWITCHML_HOME={moved}")
    assert f"-I{moved}/include" in tree.command(support.OURS)
    tree.patch(support.options(simulator))
    tree.configure()
    assert tree.cached("SWITCHML_HOME") == moved
    tree.configure("-USWITCHML_HOME")


def test_the_users_home_wins_in_a_fresh_tree(simulator: Path, tmp_path: Path) -> None:
    options = support.options(tmp_path / "gone")
    project = configured(tmp_path, options, f"-DSWITCHML_HOME={simulator}", pin="v1.7.1")
    assert project.cached("SWITCHML_HOME") == str(simulator)


def test_a_home_left_at_the_default_follows_it(
    simulator: Path, tree: support.Project, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        shutil.copytree(simulator, tmp_path / name)
        tree.patch(support.options(tmp_path / name))
        tree.configure()
        assert tree.cached("SWITCHML_HOME") == str(tmp_path / name)
        assert f"-I{tmp_path / name}/include" in tree.command(support.OURS)


def test_a_rebuilt_archive_is_looked_at_again(clients: Clients, tmp_path: Path) -> None:
    """Its headers' layout follows its flags, so that a build must not go on with the old ones."""
    home = tmp_path / "home"
    shutil.copytree(clients.plain, home)
    project = configured(tmp_path, support.options(home), pin="v1.7.1")
    shutil.copy(clients.dpdk / "lib" / "libswitchml-client.a", home / "lib")
    output = " ".join(project.make(ok=False).split())
    assert "was built with DPDK=1, but this patch was made without" in output


def test_without_gloo_nothing_happens(tmp_path: Path) -> None:
    for name in PINS:
        options = support.options(tmp_path / "gone")
        project = configured(tmp_path / name, options, "-DUSE_C10D_GLOO=OFF", pin=name)
        assert support.OURS not in project.sources()
        assert "SWITCHML" not in (project.build / "CMakeCache.txt").read_text()


# ---- archives of the real library's kind --------------------------------------------------------


@dataclass(frozen=True)
class Clients:
    """Homes of archives that are no simulator, and of what they need."""

    plain: Path
    dpdk: Path
    rdma: Path
    dpdk_home: Path
    grpc_home: Path

    def options(self, backend: str, **others: Path) -> Options:
        homes = {"dpdk_home": self.dpdk_home, "grpc_home": self.grpc_home, **others}
        return support.options(getattr(self, backend), *FLAGS[backend], **homes)


@pytest.fixture(scope="session")
def clients(simulator: Path, tmp_path_factory: pytest.TempPathFactory) -> Clients:
    root = tmp_path_factory.mktemp("clients")
    needs = {
        "dpdk": ("Dpdk", "fake_drivers", "fake_numa", "fake_mlx5", "fake_grpcpp", "fake_protobuf"),
        "rdma": ("Rdma", "fake_ibverbs", "fake_hugetlbfs", "fake_grpcpp", "fake_protobuf"),
    }
    homes = {
        name: support.client(root / name, simulator, support.backend(*called))
        for name, called in needs.items()
    }
    for name in ("ibverbs", "hugetlbfs"):
        text = f'extern "C" int fake_{name}() {{ return 1; }}\n'
        support.archive(homes["rdma"] / "lib" / f"lib{name}.a", [text])
    return Clients(
        support.client(root / "plain", simulator, support.backend("Dummy")),
        homes["dpdk"],
        homes["rdma"],
        support.dpdk(root / "dpdk-home"),
        support.grpc(root / "grpc-home", "protobuf", "grpc++"),
    )


def made(root: Path, options: Options, *arguments: str, pin: str = "v1.13.1") -> support.Project:
    project = configured(root, options, *arguments, pin=pin)
    project.make()
    return project


@pytest.mark.parametrize(("pin", "backend"), [(PINS[0], "dpdk"), (PINS[1], "rdma")])
def test_a_backend_links_and_loads(
    clients: Clients, tmp_path: Path, pin: str, backend: str
) -> None:
    options = clients.options(backend)
    project = made(tmp_path, options, pin=pin)
    support.run("cmake", "--install", project.build, "--prefix", tmp_path / "prefix")
    for directory in (project.built.parent, tmp_path / "prefix" / "lib"):
        message = support.report(directory / project.library)
        assert message["flags"] == " ".join(options.flags)
        assert message["simulator"] is False
        assert message["drivers"] == (backend == "dpdk")
        homes = {str(getattr(clients, backend) / "lib"), str(clients.grpc_home / "lib")}
        assert homes <= {*support.run_path(directory / render.LIBRARY)}


def test_a_shared_dpdk_is_linked_before_anything_asks_for_it(
    clients: Clients, tmp_path: Path
) -> None:
    """Its drivers are never asked for; and gcc tells the linker to drop such, on some systems."""
    home = support.dpdk(tmp_path / "shared")
    library = home / "lib" / "libdpdk.so"
    source = tmp_path / "dpdk.cpp"
    source.write_text(
        'int drivers;\nextern "C" int fake_drivers() { return drivers; }\n'
        "[[gnu::constructor]] static void add() { ++drivers; }\n"
    )
    support.run("g++", "-fPIC", "-shared", "-Wl,-soname,libdpdk.so", source, "-o", library)
    (home / "lib" / "libdpdk.a").unlink()
    options = clients.options("dpdk", dpdk_home=home)
    project = made(tmp_path, options, "-DCMAKE_CXX_FLAGS=-Wl,--as-needed")
    assert "libdpdk.so" in support.run("readelf", "-d", project.delegate)


def test_a_shared_dpdk_may_be_a_script_of_the_linker(clients: Clients, tmp_path: Path) -> None:
    """What it leaves to the linker is needed by the archive, which stands behind it."""
    home = support.dpdk(tmp_path / "shared")
    source = tmp_path / "eal.cpp"
    source.write_text('extern "C" int fake_drivers() { return 1; }\n')
    eal = home / "lib" / "librte_eal.so"
    support.run("g++", "-fPIC", "-shared", "-Wl,-soname,librte_eal.so", source, "-o", eal)
    (home / "lib" / "libdpdk.so").write_text("INPUT(AS_NEEDED(-lrte_eal))\n")
    (home / "lib" / "libdpdk.a").unlink()
    project = made(tmp_path, clients.options("dpdk", dpdk_home=home))
    assert str(home / "lib") in support.run_path(project.delegate)
    assert support.report(project.built)["simulator"] is False


def test_what_grpc_itself_needs_is_found(clients: Clients, tmp_path: Path) -> None:
    home = tmp_path / "grpc"
    shutil.copytree(clients.grpc_home, home)
    source = tmp_path / "inner.cpp"
    for name, text, libraries in (
        ("libabsl.so", 'extern "C" int inner() { return 7; }\n', []),
        (
            "libgrpc++.so",
            'extern "C" int inner();\nextern "C" int fake_grpcpp() { return inner(); }\n',
            [home / "lib" / "libabsl.so"],
        ),
    ):
        source.write_text(text)
        shared = ("g++", "-fPIC", "-shared", f"-Wl,-soname,{name}")
        support.run(*shared, source, *libraries, "-o", home / "lib" / name)
    options = clients.options("dpdk", grpc_home=home)
    project = made(tmp_path, options, f"-DCMAKE_SHARED_LINKER_FLAGS=-L{home}/lib")
    assert "(RPATH)" in support.run("readelf", "-d", project.delegate)
    assert support.report(project.built)["simulator"] is False


def test_a_home_that_says_itself_what_it_links_with(clients: Clients, tmp_path: Path) -> None:
    """Neither DPDK_HOME nor GRPC_HOME is there, and the mark of the archive reaches our file."""
    home = tmp_path / "home"
    shutil.copytree(clients.dpdk, home)
    commit = "b5c74a04fa66faa82acab154a4e21c8f76d913f2"
    mark = f"commit={commit} flags=DPDK,MLX5,DUMMY,TIMEOUTS fixes=duplicates,resent-id"
    support.archive(
        tmp_path / "mark.a",
        [f'extern "C" const char mark[] = "switchml-patch-client: {mark}";\n'],
    )
    support.run("ar", "rs", home / "lib" / "libswitchml-client.a", tmp_path / "mark.0.o")
    (home / "lib" / "pkgconfig").mkdir()
    places = (clients.dpdk_home / "lib", clients.grpc_home / "lib")
    (home / "lib" / "pkgconfig" / "switchml-client.pc").write_text(
        "prefix=${pcfiledir}/../..\nlibdir=${prefix}/lib\nName: switchml-client\n"
        "Libs: -L${libdir} -lswitchml-client "
        f"-L{places[0]} -Wl,--push-state -Wl,--no-as-needed -Wl,--whole-archive -ldpdk "
        f"-Wl,--pop-state -lnuma -lmlx5 -L{places[1]} -lgrpc++ -lprotobuf -lglog "
        f"-lboost_program_options -lpthread -Wl,-rpath,{places[1]}\n"
    )
    gone = {"dpdk_home": tmp_path / "gone", "grpc_home": tmp_path / "gone"}
    project = made(tmp_path, support.options(home, *FLAGS["dpdk"], **gone))
    assert f'-DSWITCHML_DELEGATE_CLIENT="{mark}"' in project.command(support.OURS)
    assert str(places[1]) in support.run_path(project.delegate)
    assert support.report(project.built)["drivers"] == 1


def test_a_home_in_a_directory_of_the_compiler(simulator: Path, tmp_path: Path) -> None:
    """As /usr: before the compiler's own order, <cstdlib> would not find <stdlib.h>."""
    home = tmp_path / "usr"
    shutil.copytree(simulator, home)
    text = f'#!/bin/sh\nexec g++ "$@" -idirafter {home}/include\n'
    compiler = script(tmp_path / "compiler", text)
    options = support.options(home)
    project = support.project(tmp_path / "project", support.shipped("v1.7.1"), options)
    lists = project.root / "torch/lib/c10d/CMakeLists.txt"
    system = f"include_directories(SYSTEM {home}/include)\n"  # as PyTorch does for NUMA and BLAS
    lists.write_text(system + lists.read_text())
    project.configure("-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}")
    assert f"{home}/include" not in project.command(support.OURS)
    support.run("cmake", "--build", project.build, "--target", "switchml_delegate")


def test_definitions_follow_the_archive(
    clients: Clients, simulator: Path, tree: support.Project, tmp_path: Path
) -> None:
    known = {"-DDPDK", "-DRDMA", "-DDUMMY", "-DTIMEOUTS"}
    for options, expected in (
        (support.options(clients.plain), {"-DDUMMY", "-DTIMEOUTS"}),
        (clients.options("dpdk"), {"-DDPDK", "-DTIMEOUTS"}),
        (clients.options("rdma"), {"-DRDMA", "-DTIMEOUTS"}),
        (support.options(old_abi(tmp_path / "old", simulator)), set()),
    ):
        tree.patch(options)
        tree.configure()
        assert {*tree.command(support.OURS)} & known == expected


OLD = """\
#include <string>
#include <switchml/context.h>
namespace switchml {
Context::Context() {}
Context::~Context() {}
Context& Context::GetInstance() { static Context one; return one; }
bool Context::Start(Config*) { return false; }
bool Config::LoadFromFile(std::string) { return false; }
}
"""


def old_abi(home: Path, simulator: Path) -> Path:
    """A client library built with the strings of C++98, without timeouts."""
    support.client(home, simulator)
    support.archive(
        home / "lib" / "libswitchml-client.a",
        [OLD],
        "-D_GLIBCXX_USE_CXX11_ABI=0",
        f"-I{home / 'include'}",
    )
    return home


def test_our_file_takes_the_abi_of_the_archive(
    simulator: Path, tree: support.Project, tmp_path: Path
) -> None:
    tree.patch(support.options(old_abi(tmp_path / "old", simulator)))
    tree.configure("-DCMAKE_CXX_FLAGS=-D_GLIBCXX_USE_CXX11_ABI=1")
    try:
        command = tree.command(support.OURS)
        output = command.index("-o")
        command[output + 1] = str(tmp_path / "object.o")
        support.run(*command)
        symbols = support.run("nm", "-u", tmp_path / "object.o")
        assert "_ZN8switchml6Config12LoadFromFileESs" in symbols
        assert "-D_GLIBCXX_USE_CXX11_ABI=0" not in tree.command("Store.cpp")
    finally:
        tree.configure("-DCMAKE_CXX_FLAGS=")


def test_the_probe_speaks_the_languages_of_our_file(
    clients: Clients, tree: support.Project, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    shutil.copytree(clients.plain, home)
    header = home / "include" / "switchml" / "context.h"
    header.write_text(
        "#if __cplusplus < 201703L\n#error C++17\n#endif\n"
        "#ifndef DUMMY\n#error DUMMY\n#endif\n" + header.read_text()
    )
    tree.patch(support.options(home))
    tree.configure()


# ---- what is told at configure ------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Copies of the homes, which a failure breaks."""

    clients: Clients
    root: Path

    def backend(self, name: str) -> Options:
        homes = {"dpdk_home": self.root / "dpdk-home", "grpc_home": self.root / "grpc-home"}
        return support.options(self.root / name, *FLAGS[name], **homes)


CLIENT = "plain/lib/libswitchml-client.a"
MISSING = [
    ("plain", "plain/include/switchml/context.h", "-DSWITCHML_HOME=DIR"),
    ("plain", CLIENT, "-DSWITCHML_HOME=DIR"),
    ("dpdk", "dpdk-home/lib/libdpdk.a", "-DDPDK_HOME=DIR"),
    ("dpdk", "dpdk-home/include", "-DDPDK_HOME=DIR"),
    ("dpdk", "grpc-home/lib/pkgconfig/protobuf.pc", "-DGRPC_HOME=DIR"),
    ("rdma", "grpc-home/lib/pkgconfig/grpc++.pc", "-DGRPC_HOME=DIR"),
]
"""Of a backend: what is removed, and what is told to give."""


@pytest.fixture
def case(clients: Clients, tmp_path: Path) -> Case:
    for home in (clients.plain, clients.dpdk, clients.rdma, clients.dpdk_home, clients.grpc_home):
        shutil.copytree(home, tmp_path / home.name)
    return Case(clients, tmp_path)


def fails(tree: support.Project, options: Options) -> str:
    tree.patch(options)
    output = tree.configure(ok=False)
    assert output.count("CMake Error") == 1, output
    return output


@pytest.mark.parametrize(("backend", "path", "advice"), MISSING)
def test_what_is_missing_is_named(
    case: Case, tree: support.Project, backend: str, path: str, advice: str
) -> None:
    target = case.root / path
    target.rename(case.root / "away")
    output = fails(tree, case.backend(backend))
    assert str(target) in output
    assert advice in output


def test_an_archive_of_something_else_is_named(case: Case, tree: support.Project) -> None:
    archive = case.root / CLIENT
    for texts in ("", "!<arch>\n", "int other;\n"):
        if texts.endswith(";\n"):
            support.archive(archive, [texts])
        else:
            archive.write_text(texts)
        output = fails(tree, case.backend("plain"))
        assert f"{archive} is not a SwitchML client library" in output
        assert "-DSWITCHML_HOME=DIR" in output


@pytest.mark.parametrize("backend", ["dpdk", "rdma"])
def test_other_flags_than_the_archives_are_reported(
    clients: Clients, tree: support.Project, backend: str
) -> None:
    flag = backend.upper()
    output = fails(tree, support.options(clients.plain, *FLAGS[backend]))
    assert f"made with {flag}=1, but {clients.plain}/lib/libswitchml-client.a was built" in output
    assert f"without --{backend}" in output
    home: Path = getattr(clients, backend)
    output = fails(tree, support.options(home))
    assert f"{home}/lib/libswitchml-client.a was built with {flag}=1" in output
    assert f"Apply the patch again with --{backend}" in output


def test_an_undefined_symbol_is_reported(
    simulator: Path, tree: support.Project, tmp_path: Path
) -> None:
    text = support.backend("Dummy", "of_a_library_that_is_missing")
    home = support.client(tmp_path / "home", simulator, text)
    output = fails(tree, support.options(home))
    assert "undefined reference to `of_a_library_that_is_missing'" in output
    assert f"{home}/lib/libswitchml-client.a does not link" in output


def test_a_library_that_cannot_be_found_is_reported(case: Case, tree: support.Project) -> None:
    config = case.root / "grpc-home/lib/pkgconfig/grpc++.pc"
    config.write_text(config.read_text().replace("-lgrpc++", "-lgrpc++-of-nobody"))
    assert "-lgrpc++-of-nobody" in fails(tree, case.backend("dpdk"))


def test_what_the_linker_says_is_reported(tree: support.Project, case: Case) -> None:
    (case.root / CLIENT).write_text("_ZN8switchml7Context11GetInstanceEv\n")
    assert "file format not recognized" in fails(tree, case.backend("plain"))


def test_what_no_pattern_finds_is_reported_whole(clients: Clients, tmp_path: Path) -> None:
    text = '#!/bin/sh\ncase "$*" in *probe.cpp*) echo geht nicht; exit 1;; esac\nexec g++ "$@"\n'
    compiler = script(tmp_path / "compiler", text)
    options = support.options(clients.plain)
    project = support.project(tmp_path / "project", support.shipped(PINS[0]), options)
    output = project.configure("-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}", ok=False)
    assert "geht nicht" in output


def test_another_grpc_is_looked_up_again(case: Case, tree: support.Project) -> None:
    tree.patch(case.clients.options("dpdk"))
    tree.configure()
    tree.patch(case.backend("dpdk"))
    tree.configure()
    assert f"-I{case.root / 'dpdk-home' / 'include'}" in tree.command(support.OURS)
    ninja = (tree.build / "build.ninja").read_text()
    assert f"{case.root}/grpc-home/lib" in ninja
    assert f"{case.clients.grpc_home}/lib" not in ninja
