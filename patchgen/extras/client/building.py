"""Build of the client library from its fixed source, installed as a SWITCHML_HOME."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources

from patchgen.core import sbom
from patchgen.core.library import archive, config, homes, origin
from patchgen.errors import file_errors
from patchgen.extras.client import checkout, fixes
from patchgen.extras.client.fixes import COMMIT, Fix
from patchgen.options import FLAGS, Flag
from patchgen.system import files, paths, statement
from patchgen.system.native import cmake
from patchgen.system.statement import Provenance

_PROJECT = "CMakeLists.txt"
_SETTINGS = "settings.cmake"
_SOURCE = "source"
_PARTS = ("prepostprocessors", "schedulers", "backends/dummy")
_GRPC_ONLY = "grpc_client.h"
_GENERATED = ("switchml.pb.h", "switchml.grpc.pb.h")


@dataclass(frozen=True)
class ClientRequest:
    """Options of a build of the library. Homes are absolute paths, empty for packages."""

    flags: tuple[str, ...]
    fixes: tuple[Fix, ...]
    dpdk_home: str = ""
    grpc_home: str = ""
    cxx11_abi: bool | None = None
    """Value of _GLIBCXX_USE_CXX11_ABI; None for the compiler's default."""
    commit: str = COMMIT

    @property
    def set_flags(self) -> tuple[Flag, ...]:
        """Flags that are set, in the order of `FLAGS`."""
        return tuple(flag for flag in FLAGS if flag.name in self.flags)

    @property
    def grpc(self) -> bool:
        """True if the library needs gRPC."""
        return any("grpc_home" in flag.homes for flag in self.set_flags)


def fix_sources(request: ClientRequest, sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """Apply the fixes to the source, and return all files by path.

    Raises:
        TreeError: a file is not that of the commit.
    """
    changed = fixes.apply(request.fixes, sources)
    fixes.verify(request.fixes, changed)
    return {**sources, **changed}


def install(
    request: ClientRequest,
    sources: Mapping[str, bytes],
    home: str,
    environ: Mapping[str, str] | None = None,
) -> list[str]:
    """Compile the library and install it into a home, which is not touched if the build fails.

    `sources` are without fixes. Without `environ`, neither provenance nor SBOM is written.

    Returns:
        The paths of the installed files, relative to the home.

    Raises:
        TreeError: the source is not that of the commit.
        ToolError: a program or library is missing, or the compiler failed.
        FileError: the home cannot be written.
    """
    whole = fix_sources(request, sources)
    with (
        cmake.build_project(make_project(request, whole), "the client library", environ) as build,
        file_errors(),
    ):
        found = collect_files(request, whole, build)
    if environ is not None:
        made = {name: content for name, content in found.items() if name != config.NAME}
        described = _describe(request, whole, made, environ)
        content = sbom.compose(described, (), origin.ARCHIVE)
        found = {origin.NAME: described.content(), origin.SBOM: content, **found}
    origin.install(home, found)
    return [*found]


def make_project(request: ClientRequest, whole: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of the CMake project that compiles a fixed source, by path."""
    text = resources.files("patchgen.extras.client.project").joinpath(_PROJECT).read_bytes()
    names = (cmake.PACKAGES, cmake.REPRODUCIBLE)
    included = {name: cmake.read_module(name).encode() for name in names}
    sources = {f"{_SOURCE}/{path}": content for path, content in whole.items()}
    return {_PROJECT: text, **included, _SETTINGS: _settings(request), **sources}


def collect_files(
    request: ClientRequest, whole: Mapping[str, bytes], build: str
) -> dict[str, bytes]:
    """Return the files to install from a built project, by path in the home.

    Raises:
        OSError: the project is not built.
    """
    found = dict(_headers(request, whole))
    for name in _GENERATED if request.grpc else ():
        found[f"include/switchml/{name}"] = _read(build, f"generated/{name}")
    found[homes.MODULE] = _read(build, posixpath.basename(homes.MODULE))
    found[config.NAME] = config.compose_installed(request.flags).encode()
    found[homes.ARCHIVE] = _read(build, homes.ARCHIVE)
    return found


def _describe(
    request: ClientRequest,
    whole: Mapping[str, bytes],
    made: Mapping[str, bytes],
    environ: Mapping[str, str],
) -> Provenance:
    needed = {"DPDK_HOME": request.dpdk_home, "GRPC_HOME": request.grpc_home}
    return origin.describe(
        origin.CLIENT,
        made,
        environ,
        request={
            "flags": list(request.flags),
            "fixes": sorted(fix.id for fix in request.fixes),
            "cxx11_abi": request.cxx11_abi,
            "homes": {name: paths.printable(home) for name, home in needed.items() if home},
        },
        resolved={"linked": list(archive.find_links(made[homes.MODULE].decode()))},
        materials=[
            statement.describe_commit(checkout.NAME, checkout.URL, request.commit),
            statement.describe_file("fixed source", files.digest(
                {path: hashlib.sha256(content).hexdigest() for path, content in whole.items()}
            )),
        ],
    )  # fmt: skip


def _read(build: str, name: str) -> bytes:
    with open(os.path.join(build, name), "rb") as file:
        return file.read()


def _settings(request: ClientRequest) -> bytes:
    values = {
        "SWITCHML_FLAGS": ";".join(request.flags),
        "SWITCHML_BACKENDS": ";".join(flag.name for flag in request.set_flags if flag.backend),
        "SWITCHML_GRPC": "TRUE" if request.grpc else "FALSE",
        "SWITCHML_CARD_LIBRARIES": _list_libraries(request, cards=True),
        "SWITCHML_BACKEND_LIBRARIES": _list_libraries(request, cards=False),
        "SWITCHML_COMMIT": request.commit,
        "SWITCHML_FIXES": ",".join(sorted(fix.id for fix in request.fixes)),
        "DPDK_HOME": request.dpdk_home,
        "GRPC_HOME": request.grpc_home,
    }
    if request.cxx11_abi is not None:
        values["SWITCHML_CXX11_ABI"] = str(int(request.cxx11_abi))
    lines = [f"set({name} [==[{value}]==])\n" for name, value in values.items()]
    return paths.encode("".join(lines))


def _list_libraries(request: ClientRequest, *, cards: bool) -> str:
    """Return the libraries of the flags as LIBRARY=PACKAGE, for CMake."""
    flags = [flag for flag in request.set_flags if bool(flag.cards) is cards]
    return ";".join(
        f"{name}={package}" for flag in flags for name, package in flag.libraries.items()
    )


def _headers(request: ClientRequest, sources: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the headers of the compiled parts, at the paths where upstream installs them."""
    backends = [flag.directory for flag in request.set_flags if flag.backend]
    wanted = {posixpath.join(checkout.LIBRARY, part) for part in ("", *_PARTS, *backends)}
    for path, content in sources.items():
        directory, name = posixpath.split(path)
        used = posixpath.join(directory, "") in wanted or directory in wanted
        if used and name.endswith(".h") and (request.grpc or name != _GRPC_ONLY):
            yield f"include/switchml/{posixpath.relpath(path, checkout.LIBRARY)}", content
