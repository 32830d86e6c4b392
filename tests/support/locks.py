"""The delegate's C++ with locks that refuse what no thread may do while it holds one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from support.delegate import CPP, FAULTS, compiled, render, unite
from support.shared import once
from support.simulator import installed_prefix

RULE = ("-include", str(CPP / "locks.hpp"), f"-I{CPP}")
_STANDS_FOR = {
    r"\bstd::mutex\b": "locks::Mutex",
    r"\bstd::condition_variable\b": "std::condition_variable_any",
}


def render_checked(directory: Path) -> None:
    """Write the C++ of the delegate with the checked locks."""
    render(directory)
    for path in [*directory.rglob("*.hpp"), *directory.rglob("*.cpp")]:
        text = path.read_text()
        for pattern, replacement in _STANDS_FOR.items():
            text = re.sub(pattern, replacement, text)
        path.write_text(text)


def checked(factory: pytest.TempPathFactory) -> Path:
    """Return the program of all scenarios, which ends with an error if it breaks the rule."""

    def make(directory: Path) -> None:
        prefix = installed_prefix(factory)
        shutil.copy(prefix / "switchml.cfg", directory)
        render_checked(directory)
        sources = [CPP / "delegate.cpp", unite(directory), CPP / "locks.cpp"]
        compiled("delegate", sources, prefix, directory, "clang++", "-O0", *RULE, *FAULTS, "-ldl")

    return once(factory, "delegate-locks", make) / "delegate"
