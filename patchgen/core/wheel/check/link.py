"""Rows about what the client library is compiled and linked with."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from patchgen.core.patch.limits import Limits
from patchgen.core.wheel.check import advice
from patchgen.core.wheel.check.site import lines
from patchgen.core.wheel.check.tools import relock
from patchgen.system.checks import Check
from patchgen.system.paths import native

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchgen.core.wheel.check.configure import Configuration
    from patchgen.core.wheel.check.facts import Facts
    from patchgen.core.wheel.check.tools import Tools

_LATER = {"boost-cpp": "libboost-devel"}  # what a package was renamed to
_GLOG = Limits("the client library", {"glog": "<0.6"})
_COMPILES = re.compile(r"\berror: (?!ld returned|linker command)|\bfatal error: ")


def check_headers(facts: Facts) -> Iterator[Check]:
    """Checks that the headers of the client library compile."""
    row = _compile_headers(facts)
    if row:
        yield row


def check_libraries(facts: Facts) -> Iterator[Check]:
    """Checks that the client library links, or that the lock has its libraries."""
    configuration, tools = facts.configuration, facts.tools
    conda = tools.locked_gcc is not None
    if facts.failure:
        problems = (*lines(facts.failure), "see the rows about cmake and the compiler")
        yield Check("libraries", problems)
    elif configuration and tools.has_compiler:
        compiled = _compile_headers(facts)
        complete = not configuration.missing and not configuration.modules
        whole = compiled is not None and compiled.ok and complete
        yield libraries(configuration, whole=whole, conda=conda)
    elif configuration and conda:
        homes = (facts.options.switchml_home, facts.options.dpdk_home)
        directories = [f"{native(home)}/lib" for home in homes if home]
        yield in_lock(configuration.libraries, directories, tools, simulator=facts.simulator)


def _compile_headers(facts: Facts) -> Check | None:
    """Row about the headers; None where there is nothing to compile, or nothing to do it with."""
    usable = facts.archive and facts.client.headers and facts.tools.has_compiler
    if not usable or facts.configuration is None:
        return None
    return headers(facts.configuration, conda=facts.tools.locked_gcc is not None)


def headers(configuration: Configuration, *, conda: bool) -> Check:
    """Row about whether a line that includes the client library compiles."""
    name = "headers of the client library"
    if configuration.linked and _COMPILES.search(configuration.linked):
        return Check(name, tuple(advice.explain_compiler(configuration.linked, conda=conda)))
    return Check(name, (), "compile")


def libraries(configuration: Configuration, *, whole: bool, conda: bool) -> Check:
    """Row about whether the client library links with all that it needs.

    Args:
        configuration: the answers of switchml.cmake.
        whole: nothing is missing in the homes, and the headers compile; else only the names count.
        conda: the compiler is that of a conda environment, and looks nowhere else.
    """
    complaint = (configuration.linked or "") if whole else configuration.named
    if complaint:
        return Check("libraries", tuple(advice.explain_linker(complaint, conda=conda)))
    names = "those of SWITCHML_HOME" if configuration.module else ", ".join(configuration.libraries)
    return Check("libraries", (), f"{names}: {'link' if whole else 'found'}")


def in_lock(
    names: Sequence[str], directories: Sequence[str], tools: Tools, *, simulator: bool
) -> Check:
    """Row about whether the lock has what the client library needs, without a prefix to link in.

    Args:
        names: the libraries.
        directories: other places of libraries.
        tools: the lock.
        simulator: the client library is the simulator, which takes any glog.
    """
    there: list[str] = []
    wrong: list[str] = []
    for name in names:
        if name not in advice.PACKAGES:
            continue  # it comes from a home
        package = advice.PACKAGES[name].conda
        version = tools.locked(package) or tools.locked(_LATER.get(package, ""))
        beside = any(
            os.path.exists(f"{directory}/lib{name}.{kind}")
            for directory in directories
            for kind in ("so", "a")
        )
        if version:
            there.append(f"{package} {version}")
            if package == "glog" and not simulator:
                wrong += _GLOG.problems("glog", version, relock())
        elif beside:
            there.append(name)
        else:
            wrong.append(f"no library {name} in the lock; {advice.install(name, conda=True)}")
    return Check("libraries", tuple(wrong), ", ".join(dict.fromkeys(there)))
