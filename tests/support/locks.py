"""The delegate's C++ with locks that refuse what no thread may do while it holds one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from support.delegate import CPP, FAULTS, UNITED, compile_parts, compiled, render, unite
from support.shared import once
from support.simulator import installed_prefix

RULE = ("-include", str(CPP / "locks.hpp"), f"-I{CPP}")
_STANDS_FOR = {
    r"\bstd::mutex\b": "locks::Mutex",
    r"\bstd::condition_variable\b": "std::condition_variable_any",
}


def parts_checked(factory: pytest.TempPathFactory) -> Path:
    """Return the C++ of the delegate with the checked locks, and the object of its parts."""

    def make(directory: Path) -> None:
        render(directory)
        for path in [*directory.rglob("*.hpp"), *directory.rglob("*.cpp")]:
            text = path.read_text()
            for pattern, replacement in _STANDS_FOR.items():
                text = re.sub(pattern, replacement, text)
            path.write_text(text)
        compile_parts(directory, *RULE)

    return once(factory, "delegate-locked-parts", make)


def checked(factory: pytest.TempPathFactory) -> Path:
    """Return the program of all scenarios, which ends with an error if it breaks the rule."""

    def make(directory: Path) -> None:
        prefix = installed_prefix(factory)
        shutil.copytree(parts_checked(factory), directory, dirs_exist_ok=True)
        shutil.copy(prefix / "switchml.cfg", directory)
        units = [CPP / "delegate.cpp", unite(directory, *UNITED), CPP / "locks.cpp"]
        sources = [*units, directory / "parts.o"]
        compiled("delegate", sources, prefix, directory, "clang++", "-O0", *RULE, *FAULTS, "-ldl")

    return once(factory, "delegate-locks", make) / "delegate"
