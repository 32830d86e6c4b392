"""The environment that the build sees: what is set for it, and of the user's own what it reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from patchgen.errors import OptionsError
from patchgen.system.native import cache

# What PyTorch's setup.py and its CMake files read. Not DEBUG: there it means another thing.
_READ = re.compile(
    r"(BUILD|USE|CMAKE|CUDA|CUDNN|NCCL|NVCC|TORCH|MKL|MKLDNN|MAGMA|CAFFE2|ATEN|ONNX|INTERN|"
    r"Open(BLAS)?|OMP|GLOO|PYTORCH|NUMPY|PKG_CONFIG)_\w+"
    r"|BLAS|VERBOSE|CUDACXX|CUDAHOSTCXX"
)
_COMPILER = frozenset({"CPP", "LD", "AR", *cache.COMPILERS, *cache.VARIABLES})

# What programs need to run, and no result depends on.
_KEPT = re.compile(
    r"HOME|PATH|TMPDIR|TERM|USER|LOGNAME|LD_LIBRARY_PATH"
    r"|(CCACHE|SCCACHE|AWS|XDG)_\w+"
    r"|(https?|no|all)_proxy|(HTTPS?|NO|ALL)_PROXY"
)

# How it is compiled, but not what comes of it.
NEUTRAL = frozenset(
    {
        "CMAKE_C_COMPILER_LAUNCHER",
        "CMAKE_CXX_COMPILER_LAUNCHER",
        "CMAKE_CUDA_COMPILER_LAUNCHER",
        "VERBOSE",
    }
)

# Without these the time, the user or the locale would come into what is built.
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "TZ": "UTC",
}
_OURS = frozenset(
    {"MAX_JOBS", "PYTORCH_BUILD_VERSION", "PYTORCH_BUILD_NUMBER", "SOURCE_DATE_EPOCH"}
)


def is_read(name: str) -> bool:
    """True for a variable of the user that a build reads, and that changes what it makes."""
    return (_READ.fullmatch(name) is not None or name in _COMPILER) and name not in NEUTRAL


def parse(given: Sequence[str]) -> dict[str, str]:
    """Reads NAME=VALUE, each once.

    Raises:
        OptionsError: it is not of that form, is given twice, or is one that the build sets itself.
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise OptionsError(f"--set {text}: write NAME=VALUE, as --set USE_MKLDNN=0")
        if name in _OURS:
            raise OptionsError(f"--set {name}: is set by the build itself; see --jobs")
        if found.get(name, value) != value:
            raise OptionsError(f"--set {name}: given twice, as {found[name]} and {value}")
        found[name] = value
    return found


def resolve(
    defaults: Mapping[str, str],
    environ: Mapping[str, str],
    given: Mapping[str, str],
    *,
    conda: bool,
) -> dict[str, str]:
    """The variables of the build, by name: the command line, else the environment, else defaults.

    Args:
        defaults: of the recipe and of the machine.
        environ: of the user.
        given: on the command line; an empty value leaves a variable out.
        conda: the compiler is that of an environment, so what the user's shell says of another one
            does not count.
    """
    read = {
        name: value
        for name, value in environ.items()
        if value
        and name not in _OURS
        and (_READ.fullmatch(name) or (not conda and name in _COMPILER))
    }
    merged = {**defaults, **read, **given}
    return {name: merged[name] for name in sorted(merged) if merged[name]}


def environment(
    variables: Mapping[str, str], environ: Mapping[str, str], tools: str | None
) -> dict[str, str]:
    """The whole environment of the build.

    Args:
        variables: of the build.
        environ: of the user.
        tools: a directory to look for programs in before PATH.
    """
    kept = {name: value for name, value in environ.items() if _KEPT.fullmatch(name)}
    if tools is not None:
        kept["PATH"] = f"{tools}:{kept['PATH']}" if kept.get("PATH") else tools
    return {**kept, **variables, **_FIXED}
