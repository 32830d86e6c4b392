"""Row about BLAS and LAPACK: PyTorch is built without where its cmake finds none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchgen.checks import Check
from patchgen.wheel.check.configure import BLAS
from patchgen.wheel.check.site import shown
from patchgen.wheel.check.tools import relock

if TYPE_CHECKING:
    from patchgen.wheel.check.configure import Said
    from patchgen.wheel.check.tools import Tools

_NAME = "BLAS and LAPACK"
_LOCKED = (("mkl", "mkl-include"), ("openblas",), ("openblas-devel",))  # any of these will do
_WITHOUT = "products of matrices are slow without, and torch.svd and its like raise"
_ACCEPT = "or build without: --accept no-blas"
_INSTALL = f"install libopenblas-dev (Debian) or openblas-devel (RHEL), {_ACCEPT}"


def row(tools: Tools, said: Said | None) -> Check | None:
    """Whether the build will find both.

    Args:
        tools: for the lock.
        said: of the scratch project, where there is a compiler to look with.

    Returns:
        None where the release does not need them, or nothing is known of what is here.
    """
    if BLAS not in tools.limits.specifiers:
        return None
    if tools.environment is not None:
        return _locked(tools) if tools.environment.packages else None
    if said is None or not tools.has_compiler:
        return None
    libraries = ", ".join(shown(path) for path in said.blas if path.startswith("/"))
    if not said.blas:
        return Check(_NAME, (f"no library of BLAS; {_WITHOUT}", _INSTALL))
    if not said.lapack:
        return Check(_NAME, (f"no LAPACK in or beside it; {_WITHOUT}", _INSTALL), libraries)
    return Check(_NAME, (), libraries)


def _locked(tools: Tools) -> Check:
    for names in _LOCKED:
        versions = [tools.locked(name) for name in names]
        if all(versions):
            return Check(_NAME, (), f"{names[0]} {versions[0]} of the lock")
    put = relock("put mkl and mkl-include")
    return Check(_NAME, (f"not in the lock; {_WITHOUT}", f"{put}; {_ACCEPT}"))
