"""Rows about what the client library is compiled and linked with."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from patchgen.checks import Check
from patchgen.patch.limits import Limits
from patchgen.wheel.check import advice
from patchgen.wheel.check.tools import relock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.wheel.check.configure import Said
    from patchgen.wheel.check.tools import Tools

_LATER = {"boost-cpp": "libboost-devel"}  # what a package was renamed to
_GLOG = Limits("the client library", {"glog": "<0.6"})
_COMPILES = re.compile(r"\berror: (?!ld returned|linker command)|\bfatal error: ")


def headers(said: Said, *, conda: bool) -> Check:
    """Whether a line that includes the client library compiles."""
    name = "headers of the client library"
    if said.linked and _COMPILES.search(said.linked):
        return Check(name, tuple(advice.of_compiler(said.linked, conda=conda)))
    return Check(name, (), "compile")


def libraries(said: Said, *, whole: bool, conda: bool) -> Check:
    """Whether the client library links with all that it needs.

    Args:
        said: by switchml.cmake.
        whole: nothing is missing in the homes, and the headers compile; else only the names count.
        conda: the compiler is that of a conda environment, and looks nowhere else.
    """
    complaint = (said.linked or "") if whole else said.named
    if complaint:
        return Check("libraries", tuple(advice.of_linker(complaint, conda=conda)))
    names = "those of SWITCHML_HOME" if said.module else ", ".join(said.libraries)
    return Check("libraries", (), f"{names}: {'link' if whole else 'found'}")


def in_lock(
    names: Sequence[str], directories: Sequence[str], tools: Tools, *, simulator: bool
) -> Check:
    """Whether the lock has what the client library needs, where there is no prefix to link in.

    Args:
        names: of libraries.
        directories: where they may be as well.
        tools: for the lock.
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
