"""CMake project that a graft is compiled from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from patchgen.core.patch import render
from patchgen.core.patch.pins import Pin
from patchgen.core.torch import Torch
from patchgen.errors import OptionsError
from patchgen.extras.install.graft.cuda import Cuda
from patchgen.extras.install.graft.identity import Identity
from patchgen.extras.install.graft.sources import GLOO, gloo_directory
from patchgen.extras.install.payload import graft_hook
from patchgen.options import Options
from patchgen.system import paths
from patchgen.system.native import cmake

_IMPLICIT = "/usr/include"  # with -isystem it would hide headers of the C++ library
_EXPANDED = re.compile(r":|\$\{?(ORIGIN|LIB|PLATFORM)\b")


def files(  # noqa: PLR0913  # each is a part of it
    options: Options,
    pin: Pin,
    torch: Torch,
    *,
    cuda: Cuda | None,
    identity: Identity,
    sources: Mapping[str, bytes],
) -> dict[str, bytes]:
    """Return the files of the project by path, with the sources of `graft.sources`.

    Raises:
        OptionsError: the path of torch cannot be part of a run path.
    """
    gloo = gloo_directory(torch)
    text = render.text(
        "graft/CMakeLists.txt",
        pin=pin,
        torch=torch,
        cuda=cuda is not None,
        include_root=pin.source_dir[: -len(pin.include_prefix)],
        own_gloo=any(path.startswith(GLOO) for path in sources),
        gloo=GLOO,
    )
    named = {
        "identity": graft_hook.MARK.decode("ascii") + identity.to_json(),
        "torch": identity.title,
        "libraries": identity.libraries,
    }
    headers = [*torch.include_dirs, *(cuda.include_dirs if cuda else ()), *([gloo] if gloo else [])]
    return {
        **sources,
        **render.new_files(options, pin),
        "CMakeLists.txt": text.encode(),
        cmake.REPRODUCIBLE: cmake.read_module(cmake.REPRODUCIBLE).encode(),
        "guard.cpp": render.text("graft/guard.cpp").encode(),
        "overrides.hpp": render.text("graft/overrides.hpp").encode(),
        "identity.inc": render.text("graft/identity.inc", **named).encode(),
        "compile.rsp": _response(
            word
            for path in dict.fromkeys(headers)
            if path != _IMPLICIT
            for word in ("-isystem", path)
        ),
        "link.rsp": _response(_linked(torch, cuda)),
    }


def _linked(torch: Torch, cuda: Cuda | None) -> list[str]:
    """Return the linker arguments: torch's libraries and the run path."""
    if _EXPANDED.search(torch.lib_dir):
        raise OptionsError(
            f"{paths.printable(torch.lib_dir)}: ld.so cannot take this in a run path; give an "
            "interpreter whose torch is elsewhere"
        )
    # libtorch_python.so depends on all that `import torch` loads; libtorch_cpu.so alone may lack
    # symbols.
    needed = ["torch_python"]
    words = ["-rpath", torch.lib_dir]
    if cuda is not None:
        # Wheels rename the file of CUDA's runtime but not its soname, so a graft that links with it
        # would not load. These two load it; the trial of the graft finds missing symbols.
        words.append("--unresolved-symbols=ignore-all")
        needed += ["torch_cuda", "c10_cuda"]
    words += ["--no-as-needed", *(_library(torch, name) for name in needed), "--as-needed"]
    return [*words, *(_library(torch, name) for name in ("torch_cpu", "c10"))]


def _library(torch: Torch, name: str) -> str:
    return os.path.join(torch.lib_dir, f"lib{name}.so")


def _response(words: Iterable[str]) -> bytes:
    """Return a response file for the compiler or the linker, one word a line."""
    return b"".join(re.sub(rb"([^\w./+-])", rb"\\\1", paths.encode(word)) + b"\n" for word in words)
