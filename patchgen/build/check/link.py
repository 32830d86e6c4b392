"""Whether the client library can be used: its headers compile, and all that it needs links.

The linker is run as switchml.cmake's probe would have it run, with /dev/null as its output.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from patchgen.build.check.site import lines
from patchgen.build.check.tools import relock
from patchgen.checks import Check
from patchgen.client import library as archives
from patchgen.errors import ToolError
from patchgen.patch.limits import Limits
from patchgen.system.paths import native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.build.check.tools import Tools
    from patchgen.client.library import Archive
    from patchgen.options import Options


class Package(NamedTuple):
    """What brings a library. Empty where no package is known."""

    debian: str
    rhel: str
    conda: str


PACKAGES = {
    "glog": Package("libgoogle-glog-dev", "glog-devel", "glog"),
    "boost_program_options": Package("libboost-program-options-dev", "boost-devel", "boost-cpp"),
    "numa": Package("libnuma-dev", "numactl-devel", "libnuma"),
    "ibverbs": Package("libibverbs-dev", "rdma-core-devel", "rdma-core"),
    "mlx5": Package("libibverbs-dev", "rdma-core-devel", "rdma-core"),
    "mlx4": Package("libibverbs-dev", "rdma-core-devel", "rdma-core"),
    "mnl": Package("libmnl-dev", "libmnl-devel", ""),
    "hugetlbfs": Package("libhugetlbfs-dev", "libhugetlbfs-devel", "libhugetlbfs"),
}
_STANDARD = ("-lpthread", "-ldl", "-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc")
_HINTS = (
    (r"^google::protobuf|^grpc|^absl", "gRPC's libraries in GRPC_HOME do not fit or are not whole"),
    (r"^google::", "the client library was built with another glog, before 0.6: install that one"),
    (r"^rte_", "DPDK in DPDK_HOME is not the one that the client library was built with"),
    (r"^(ibv|mlx5dv)_", "DPDK was built with the mlx5 driver: add --mlx5"),
    (r"^mlx4dv_", "DPDK was built with the mlx4 driver: add --mlx4"),
    (r"^boost::", "the client library was built with another Boost: install that one"),
)
_LATER = {"boost-cpp": "libboost-devel"}  # what a package was renamed to
_GLOG = Limits("the client library", {"glog": "<0.6"})
_SHOWN = 3  # undefined symbols


@dataclass(frozen=True)
class Needs:
    """What the client library is linked with besides the compiler's own libraries."""

    libraries: tuple[str, ...]
    """In the order of the linker."""
    directories: tuple[str, ...]
    """Where they are looked for first."""
    whole: tuple[str, ...] = ()
    """Libraries that are linked whole."""
    grpc: tuple[str, ...] = ()
    """What pkg-config says of gRPC."""

    @property
    def alone(self) -> Needs:
        """Without what comes from homes, of which something is missing."""
        return Needs(self.libraries, self.directories)


def needs(options: Options, *, simulator: bool, grpc: Sequence[str] = ()) -> Needs:
    """As in switchml.cmake."""
    libraries = ["glog", "boost_program_options"]
    homes = [options.switchml_home]
    if simulator:
        return Needs(tuple(libraries), (f"{homes[0]}/lib",))
    if options.dpdk:
        libraries.append("numa")
        homes.append(options.dpdk_home)
    if options.mlx5 or options.mlx4:
        libraries += ["ibverbs", "mlx5" if options.mlx5 else "mlx4", "mnl"]
    if options.rdma:
        libraries += ["ibverbs", "hugetlbfs"]
    return Needs(
        tuple(libraries),
        tuple(f"{native(home)}/lib" for home in homes),
        ("dpdk",) if options.dpdk else (),
        tuple(grpc),
    )


def headers(options: Options, archive: Archive, tools: Tools) -> Check:
    """Compiles, without output, a line that includes the client library."""
    home = native(options.switchml_home)
    flags = [f"-D{name}" for name in archive.backends] + ["-DTIMEOUTS"] * archive.timeouts
    if options.dpdk and not archive.simulator:
        flags += ["-isystem", f"{native(options.dpdk_home)}/include"]
    command = [*tools.compiler(), "-std=c++17", "-fsyntax-only", "-I", f"{home}/include", *flags]
    name = "headers of the client library"
    try:
        tools.ask([*command, "-x", "c++", "-"], b"#include <switchml/context.h>\n")
    except ToolError as error:
        return Check(name, tuple(_compiler_says(str(error), conda=tools.locked_gcc is not None)))
    return Check(name, (), "compile")


def _compiler_says(said: str, *, conda: bool) -> list[str]:
    missing = re.search(r"fatal error: '?([^':\n]+?)'?(?:: No such file| file not found)", said)
    if missing:
        return [f"no <{missing[1]}>; {install(missing[1].partition('/')[0], conda=conda)}"]
    errors = re.findall(r"error: (.*)", said)
    return [*(errors[:1] or lines(ToolError(said))), "use a compiler of C++17: set CC and CXX"]


def libraries(wanted: Needs, home: str | None, tools: Tools) -> Check:
    """Links the client library and all that it needs, without output.

    Args:
        wanted: what it needs.
        home: SWITCHML_HOME; None where there is no archive to link.
        tools: for the compiler, which knows the linker and where it looks.
    """
    try:
        tools.ask(_command(wanted, home, tools))
    except ToolError as error:
        conda = tools.locked_gcc is not None
        return Check("libraries", tuple(explain(str(error), conda=conda)))
    names = ", ".join((*wanted.whole, *wanted.libraries))
    return Check("libraries", (), f"{names}: {'link' if home else 'found'}")


def _command(wanted: Needs, home: str | None, tools: Tools) -> list[str]:
    def say(what: str) -> str:
        return tools.ask([*tools.compiler(), f"-print-{what}"])

    found = re.search(r"^libraries: =(.*)$", say("search-dirs"), re.MULTILINE)
    try:
        sysroot = say("sysroot").strip()
    except ToolError:  # clang has no such option
        sysroot = ""
    directories = [*wanted.directories, *(found[1].split(":") if found else [])]
    undefined, client = (
        ["-u", "_ZN8switchml7Context11GetInstanceEv"],
        [f"{home}/{archives.ARCHIVE}"],
    )
    return [
        say("prog-name=ld").strip(),
        *([f"--sysroot={sysroot}"] if sysroot else []),
        *("-shared", "-z", "defs", "-s", "-o", os.devnull),
        "--defsym=__dso_handle=0",  # of crtbegin.o
        *(undefined if home else []),
        *(f"-L{directory}" for directory in directories),
        *("--whole-archive", *(f"-l{name}" for name in wanted.whole), "--no-whole-archive"),
        *(client if home else []),
        *(f"-l{name}" for name in wanted.libraries),
        *wanted.grpc,
        *_STANDARD,
    ]


def explain(said: str, *, conda: bool) -> list[str]:
    """What the linker complains about, and what to do.

    Args:
        said: its output.
        conda: the compiler is that of a conda environment, and looks nowhere else.
    """
    missing = re.findall(r"(?:cannot find|unable to find library) -l([^\s:]+)", said)
    if missing:
        names = dict.fromkeys(missing)
        return [f"no library {name}; {install(name, conda=conda)}" for name in names]
    if re.search(r"recompile with -fPIC", said):
        return ["the client library was built without -fPIC; build it again with it"]
    symbols = list(
        dict.fromkeys(re.findall(r"undefined (?:reference to|symbol:) [`']?([^\n']+)", said))
    )
    hints = [hint for pattern, hint in _HINTS if any(re.search(pattern, one) for one in symbols)]
    if symbols:
        more = f" and {len(symbols) - _SHOWN} more" if len(symbols) > _SHOWN else ""
        return [
            f"undefined: {', '.join(symbols[:_SHOWN])}{more}",
            *(hints or ["build the client library and what it needs with the same flags"]),
        ]
    why = lines(ToolError(said))  # the first is the command, which is long
    return [*(why[1:] or why), "the client library does not link: build it again here"]


def install(library: str, *, conda: bool) -> str:
    """How to get a library, or the header of its name."""
    package = PACKAGES.get({"boost": "boost_program_options"}.get(library, library))
    if package is None:
        return f"install {library}"
    if not conda:
        return f"install {package.debian} (Debian) or {package.rhel} (RHEL)"
    if package.conda:
        return relock(f"put {package.conda}")
    return f"put lib{library}.so into SWITCHML_HOME/lib: no conda package of it is known"


def in_lock(wanted: Needs, tools: Tools, *, simulator: bool) -> Check:
    """Whether the lock has what the client library needs, where there is no prefix to link in."""
    there: list[str] = []
    wrong: list[str] = []
    for name in wanted.libraries:
        package = PACKAGES[name].conda
        version = tools.locked(package) or tools.locked(_LATER.get(package, ""))
        beside = any(
            os.path.exists(f"{directory}/lib{name}.{kind}")
            for directory in wanted.directories
            for kind in ("so", "a")
        )
        if version:
            there.append(f"{package} {version}")
            if package == "glog" and not simulator:
                wrong += _GLOG.problems("glog", version, relock())
        elif beside:
            there.append(name)
        else:
            wrong.append(f"no library {name} in the lock; {install(name, conda=True)}")
    return Check("libraries", tuple(wrong), ", ".join(dict.fromkeys(there)))
