"""Row about BLAS and LAPACK: PyTorch is built without where its cmake finds none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchgen.core.wheel.check.configure import BLAS
from patchgen.core.wheel.check.tools import relock
from patchgen.system.checks import Check
from patchgen.system.paths import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.core.wheel.check.configure import Configuration
    from patchgen.core.wheel.check.facts import Facts
    from patchgen.core.wheel.check.tools import Tools

_NAME = "BLAS and LAPACK"
_LOCKED = (("mkl", "mkl-include"), ("openblas",), ("openblas-devel",))  # any of these will do
_WITHOUT = "products of matrices are slow without, and torch.svd and its like raise"
_ACCEPT = "or build without: --accept no-blas"
_INSTALL = f"install libopenblas-dev (Debian) or openblas-devel (RHEL), {_ACCEPT}"


def check(facts: Facts) -> Iterator[Check]:
    """Checks that the build will find both, for a release that needs them."""
    row = find(facts.tools, facts.configuration)
    if row:
        yield row


def find(tools: Tools, configuration: Configuration | None) -> Check | None:
    """Row about both; None where the release does not need them, or nothing is known.

    Args:
        tools: the lock, and the limits of the release.
        configuration: libraries that a compiler has found.
    """
    if BLAS not in tools.limits.specifiers:
        return None
    if tools.environment is not None:
        return _locked(tools) if tools.environment.packages else None
    if configuration is None or not tools.has_compiler:
        return None
    libraries = ", ".join(describe(path) for path in configuration.blas if path.startswith("/"))
    if not configuration.blas:
        return Check(_NAME, (f"no library of BLAS; {_WITHOUT}", _INSTALL))
    if not configuration.lapack:
        return Check(_NAME, (f"no LAPACK in or beside it; {_WITHOUT}", _INSTALL), libraries)
    return Check(_NAME, (), libraries)


def _locked(tools: Tools) -> Check:
    for names in _LOCKED:
        versions = [tools.locked(name) for name in names]
        if all(versions):
            return Check(_NAME, (), f"{names[0]} {versions[0]} of the lock")
    put = relock("put mkl and mkl-include")
    return Check(_NAME, (f"not in the lock; {_WITHOUT}", f"{put}; {_ACCEPT}"))
