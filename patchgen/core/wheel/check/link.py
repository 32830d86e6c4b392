"""Rows about libraries: whether the client library compiles and links; BLAS and LAPACK."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from patchgen.core.recipes import BLAS, Limits
from patchgen.core.wheel.check import advice
from patchgen.core.wheel.check.advice import NOT_LOCKED, lines, of_lock, relock
from patchgen.core.wheel.check.configure import Configuration
from patchgen.core.wheel.check.facts import ACCEPTABLE, Facts
from patchgen.errors import ToolError
from patchgen.system.checks import Check
from patchgen.system.paths import describe, native

_LATER = {"boost-cpp": "libboost-devel"}  # later names of packages
_GLOG = Limits("the client library", {"glog": "<0.6"})
_ENDS = ("so", "a")
_BLAS = ACCEPTABLE["no-blas"]
_LOCKED = (("mkl", "mkl-include"), ("openblas",), ("openblas-devel",))  # alternatives
_WITHOUT = "products of matrices are slow without, and torch.svd and its like raise"
_ACCEPT = "or build without: --accept no-blas"
_INSTALL = f"install libopenblas-dev (Debian) or openblas-devel (RHEL), {_ACCEPT}"
_COMPILES = re.compile(r"\berror: (?!ld returned|linker command)|\bfatal error: ")


def check_libraries(facts: Facts) -> Iterator[Check]:
    """Check that the client library compiles and links, or that the lock has its libraries."""
    configured, compiled = facts.configured, _compile_headers(facts)
    if compiled:
        yield compiled
    if isinstance(configured, ToolError):
        problems = (*lines(configured), "see the rows about cmake and the compiler")
        yield Check("libraries", problems)
    elif configured and facts.has_compiler:
        complete = not configured.incomplete and not configured.modules
        whole = compiled is not None and compiled.ok and complete
        yield libraries(configured, whole=whole, conda=facts.conda)
    elif configured and facts.conda:
        yield find_in_lock(configured.libraries, facts)


def _compile_headers(facts: Facts) -> Check | None:
    """Return the row about the headers; None if they cannot be compiled yet."""
    if facts.client.problems or not facts.has_compiler or facts.configuration is None:
        return None
    name, linked = "headers of the client library", facts.configuration.linked
    if linked and _COMPILES.search(linked):
        return Check(name, tuple(advice.explain_compiler(linked, conda=facts.conda)))
    return Check(name, (), "compile")


def libraries(configuration: Configuration, *, whole: bool, conda: bool) -> Check:
    """Return whether the client library links with all libraries that it needs.

    `whole`: the homes are complete and the headers compile; otherwise only names are checked.
    """
    complaint = (configuration.linked or "") if whole else configuration.named
    if complaint:
        return Check("libraries", tuple(advice.explain_linker(complaint, conda=conda)))
    names = "those of SWITCHML_HOME" if configuration.module else ", ".join(configuration.libraries)
    return Check("libraries", (), f"{names}: {'link' if whole else 'found'}")


def find_in_lock(names: Sequence[str], facts: Facts) -> Check:
    """Return whether the lock or a home has these libraries, for a missing prefix."""
    options = facts.request.options
    homes = [native(home) for home in (options.switchml_home, options.dpdk_home) if home]
    there: list[str] = []
    wrong: list[str] = []
    for name in names:
        if name not in advice.PACKAGES:
            continue  # comes from a home
        package = advice.PACKAGES[name].conda
        version = facts.find_locked(package) or facts.find_locked(_LATER.get(package, ""))
        if version:
            there.append(f"{package} {version}")
            if package == "glog" and not facts.simulator:  # the simulator works with any
                wrong += _GLOG.problems("glog", version, relock())
        elif any(
            os.path.exists(f"{home}/lib/lib{name}.{kind}") for home in homes for kind in _ENDS
        ):
            there.append(name)
        else:
            wrong.append(f"no library {name} in the lock; {advice.install(name, conda=True)}")
    return Check("libraries", tuple(wrong), ", ".join(dict.fromkeys(there)))


def check_blas(facts: Facts) -> Iterator[Check]:
    """Check that the build will find BLAS and LAPACK, if the release needs them."""
    if BLAS not in facts.limits.specifiers:
        return
    if facts.locked is not None:
        if facts.locked.packages:
            yield _find_locked_blas(facts)
    elif facts.configuration and facts.has_compiler:
        blas, lapack = facts.configuration.blas, facts.configuration.lapack
        found = ", ".join(describe(path) for path in blas if path.startswith("/"))
        if not blas:
            yield Check(_BLAS, (f"no library of BLAS; {_WITHOUT}", _INSTALL))
        elif not lapack:
            yield Check(_BLAS, (f"no LAPACK in or beside it; {_WITHOUT}", _INSTALL), found)
        else:
            yield Check(_BLAS, (), found)


def _find_locked_blas(facts: Facts) -> Check:
    for names in _LOCKED:
        versions = [facts.find_locked(name) for name in names]
        if all(versions):
            return Check(_BLAS, (), of_lock(f"{names[0]} {versions[0]}"))
    put = relock("put mkl and mkl-include")
    return Check(_BLAS, (f"{NOT_LOCKED}; {_WITHOUT}", f"{put}; {_ACCEPT}"))
