"""Compile the patched files against an installed torch into one shared object."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen import files, render, tree
from patchgen.errors import ToolError, TreeError, file_errors
from patchgen.process import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchgen.options import Options
    from patchgen.pins import Pin

_COMMIT_DIGITS = 40

PROBE = """
import json, os, torch
import torch.distributed
root = os.path.dirname(torch.__file__)
print(json.dumps({
    "version": torch.__version__,
    "commit": torch.version.git_version,
    "cuda": torch.version.cuda,
    "cxx11_abi": torch._C._GLIBCXX_USE_CXX11_ABI,
    "gloo": hasattr(torch.distributed, "ProcessGroupGloo"),
    "root": root,
}))
"""


@dataclass(frozen=True)
class Torch:
    """An installed torch, as its own interpreter describes it."""

    version: str
    commit: str
    cuda: str | None
    cxx11_abi: bool
    gloo: bool
    root: str

    @property
    def lib_dir(self) -> str:
        """Where libtorch_cpu.so is."""
        return os.path.join(self.root, "lib")

    @property
    def include_dirs(self) -> list[str]:
        """Where torch's headers are: in the package, or where a distribution puts them."""
        packaged = os.path.join(self.root, "include")
        base = packaged if os.path.isdir(os.path.join(packaged, "ATen")) else "/usr/include"
        return [base, os.path.join(base, "torch", "csrc", "api", "include")]


def probe(python: Path) -> Torch:
    """The torch of an interpreter.

    Raises:
        ToolError: it has none, or none with Gloo.
    """
    try:
        answer = run([python, "-c", PROBE], cwd="/")
    except ToolError as error:
        reason = str(error).splitlines()[-1]
        raise ToolError(
            f"{shutil.which(python) or python} cannot import torch: {reason}"
        ) from error
    torch = Torch(**json.loads(answer.splitlines()[-1]))
    if not torch.gloo:
        raise ToolError(f"the torch {torch.version} of {python} has no Gloo process group")
    return torch


def check_version(torch: Torch, pin: Pin) -> None:
    """Compares the torch with the pin of its source.

    A distribution's torch may not know its commit; then the release must be the same, as far as
    version.txt of that commit tells it.

    Raises:
        TreeError: they differ.
    """
    if len(torch.commit) == _COMMIT_DIGITS:
        same = torch.commit == pin.commit
    else:
        same = _release(torch.version) in (pin.version, pin.version.rsplit(".", 1)[0] + ".0")
    if not same:
        raise TreeError(
            f"the torch in use is {torch.version} (commit {torch.commit}), the source is "
            f"{pin.name} ({pin.commit[:10]}); a graft is made from the source of its own torch"
        )


def _release(version: str) -> str:
    found = re.match(r"[0-9.]*[0-9]", version)
    return found.group() if found else version


def gloo_headers(source: Path, torch: Torch) -> str:
    """Where gloo's headers are: torch's own, the source's submodule, or a package's.

    Raises:
        ToolError: nowhere.
    """
    candidates = [*torch.include_dirs, str(source / "third_party" / "gloo"), "/usr/include"]
    for directory in candidates:
        if os.path.exists(os.path.join(directory, "gloo", "allreduce.h")):
            return directory
    raise ToolError(
        "the headers of gloo are missing: install libgloo-dev, or check out the submodule with "
        f"`git -C {source} submodule update --init third_party/gloo`; looked in "
        + ", ".join(candidates),
    )


def build(
    options: Options,
    torch_python: Path,
    source: Path,
    output: Path,
    report: Callable[[str], None],
) -> None:
    """Writes a shared object that replaces the Gloo process group of an installed torch.

    Args:
        options: the flags and homes, as for the patch.
        torch_python: the interpreter whose torch it is for.
        source: a PyTorch tree of that torch's commit, patched or not; it is only read.
        output: the shared object; replaced at once or not at all.
        report: is told of each step.

    Raises:
        TreeError: the source is of no known pin, or not that of the torch.
        ToolError: the interpreter has no usable torch, or cmake or the compiler failed.
    """
    pin, patched = tree.patched_sources(source)
    torch = probe(torch_python)
    check_version(torch, pin)
    report(f"torch {torch.version} in {torch.root}, source {pin.name}")
    if torch.cuda:
        report(f"this torch has CUDA {torch.cuda}, but the graft takes CPU tensors only")
    with tempfile.TemporaryDirectory(prefix="switchml-graft-") as directory, file_errors():
        work = Path(directory)
        project = render.text(
            "graft/CMakeLists.txt.j2",
            pin=pin,
            torch=torch,
            include_root=str(work / pin.source_dir.removesuffix(pin.include_prefix)),
            include_dirs=list(dict.fromkeys([*torch.include_dirs, gloo_headers(source, torch)])),
        ).encode()
        sources = {**patched, **render.new_files(options, pin), "CMakeLists.txt": project}
        for path, content in sources.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_bytes(content)
        report("configuring")
        run(["cmake", "-S", work, "-B", work / "build"])
        report("compiling ProcessGroupGloo.cpp and SwitchMLAllreduce.cpp")
        run(["cmake", "--build", work / "build", "--parallel", "2"])
        files.replace(os.fsencode(output), (work / "build" / "graft.so").read_bytes())
        report(f"wrote {output}")
