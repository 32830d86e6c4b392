"""Environment of a build: variables that it sets, and those of the user that it reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from patchgen.errors import OptionsError
from patchgen.system.native import cmake_variables, tools

# Variables of PyTorch's setup.py and its CMake files. Not DEBUG, which is a flag of ours.
_READ = re.compile(
    r"(BUILD|USE|CMAKE|CUDA|CUDNN|NCCL|NVCC|TORCH|MKL|MKLDNN|MAGMA|CAFFE2|ATEN|ONNX|INTERN|"
    r"Open(BLAS)?|OMP|GLOO|PYTORCH|NUMPY|PKG_CONFIG)_\w+"
    r"|BLAS|VERBOSE|CUDACXX|CUDAHOSTCXX"
)
_COMPILER = frozenset({"CPP", "LD", "AR", *tools.COMPILERS, *tools.VARIABLES})

# Variables that programs need, and that do not change results.
_KEPT = re.compile(
    r"HOME|PATH|TMPDIR|TERM|USER|LOGNAME|LD_LIBRARY_PATH"
    r"|(CCACHE|SCCACHE|AWS|XDG)_\w+"
    r"|(https?|no|all)_proxy|(HTTPS?|NO|ALL)_PROXY"
)

# Variables that do not change the compiled code.
NEUTRAL = frozenset(
    {
        "CMAKE_C_COMPILER_LAUNCHER",
        "CMAKE_CXX_COMPILER_LAUNCHER",
        "CMAKE_CUDA_COMPILER_LAUNCHER",
        "VERBOSE",
    }
)

# Without these, results would depend on the time, the user and the locale.
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
    """Return whether a build reads this variable of the user, and its result depends on it."""
    return (_READ.fullmatch(name) is not None or name in _COMPILER) and name not in NEUTRAL


def parse(given: Sequence[str]) -> dict[str, str]:
    """Parse NAME=VALUE settings.

    Raises:
        OptionsError: a setting has another form, has two values, or is set by the build itself.
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise OptionsError(f"--set {text}: write NAME=VALUE, as --set USE_MKLDNN=0")
        if name in _OURS or name in cmake_variables.DROPPED:
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
    """Return the variables of the build: settings, else the environment, else defaults.

    An empty setting in `given` removes a variable. With `conda` the compiler is that of the conda
    environment, so the user's CC and the like are ignored.
    """
    read = {
        name: value
        for name, value in environ.items()
        if value
        and name not in _OURS
        and name not in cmake_variables.DROPPED
        and (_READ.fullmatch(name) or (not conda and name in _COMPILER))
    }
    merged = {**defaults, **read, **given}
    # PyTorch's setup.py names the generator itself, as USE_NINJA and PATH say.
    if merged.pop(cmake_variables.GENERATOR, None) == cmake_variables.MAKEFILES:
        merged["USE_NINJA"] = "0"
    return {name: merged[name] for name in sorted(merged) if merged[name]}


def make_environ(
    variables: Mapping[str, str], environ: Mapping[str, str], tools: str | None
) -> dict[str, str]:
    """Return the whole environment of the build; `tools` is a directory before PATH."""
    kept = {name: value for name, value in environ.items() if _KEPT.fullmatch(name)}
    if tools is not None:
        kept["PATH"] = f"{tools}:{kept['PATH']}" if kept.get("PATH") else tools
    return {**kept, **variables, **_FIXED}
