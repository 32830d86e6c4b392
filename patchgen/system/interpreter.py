"""The torch of an interpreter, as that interpreter describes it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from patchgen.errors import ToolError
from patchgen.system.process import run

_LIMIT = 600.0  # seconds; the first import of a large torch reads gigabytes
_PROBE = """
import json, os, sys, sysconfig, torch
import torch.distributed
print(json.dumps({
    "python": sys.executable,
    "version": torch.__version__,
    "commit": torch.version.git_version,
    "cuda": torch.version.cuda,
    "cxx11_abi": torch._C._GLIBCXX_USE_CXX11_ABI,
    "gloo": hasattr(torch.distributed, "ProcessGroupGloo"),
    "root": os.path.dirname(torch.__file__),
    "python_include": sysconfig.get_path("include"),
    "purelib": sysconfig.get_path("purelib"),
    "tag": "cp%d%d" % sys.version_info[:2],
}))
"""


@dataclass(frozen=True)
class Torch:
    """An installed torch and the interpreter that imports it."""

    python: str
    version: str
    commit: str
    cuda: str | None
    cxx11_abi: bool
    gloo: bool
    root: str
    python_include: str
    purelib: str
    tag: str
    """Of the interpreter, as wheels name it, without the ABI's letters: cp311."""

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


def inspect(python: str) -> Torch:
    """The torch that an interpreter imports.

    Args:
        python: its path.

    Raises:
        ToolError: it has no torch, or none with Gloo.
    """
    try:
        # An installed graft, which may not fit any more, stays out.
        environ = {**os.environ, "SWITCHML_GRAFT": "0"}
        answer = run([python, "-c", _PROBE], cwd="/", env=environ, limit=_LIMIT)
    except ToolError as error:
        reason = str(error).splitlines()[-1]
        raise ToolError(
            f"{python} cannot import torch: {reason}\ninstall a torch there, or name another python"
        ) from error
    torch = Torch(**json.loads(answer.splitlines()[-1]))
    if not torch.gloo:
        raise ToolError(f"the torch {torch.version} of {python} has no Gloo process group")
    return torch
