"""The Makefile knows every variable that something reads."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from patchgen.core.wheel import variables
from patchgen.options import DEV_ROOT, FLAGS, VARIABLES
from patchgen.system.native import tools

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
_LIST = re.compile(r"^(FLAGS|PATHS|TARGETS|PROGRAMS) := (.*)$", re.MULTILINE)
LISTS = {name: words.split() for name, words in _LIST.findall(MAKEFILE)}
KNOWN = [word.replace("%", "*") for words in LISTS.values() for word in words]
OWN = {"FLAGS", "PATHS", "TARGETS", "PROGRAMS", "VARIABLES", "BIN", "INSTALL", "EDITABLE"}
OWN |= {"TOOL", "SIMULATOR", "BUILD", "VERIFY", "MAKEFILE_LIST", "MAKELEVEL", ".VARIABLES"}
OF_IMAGES = {"MIRROR", "SECURITY", "VERSION_CODENAME"}  # set by an engine, or by the image


def is_known(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in KNOWN)


def test_flags_and_paths_are_those_of_the_options() -> None:
    assert LISTS["FLAGS"] == [flag.name for flag in FLAGS]
    paths = [one.name for one in VARIABLES if not one.boolean]
    assert LISTS["PATHS"] == [*paths, DEV_ROOT.name]


def test_what_the_makefile_reads() -> None:
    read = {*re.findall(r"\$[({]([.A-Z_]+)[)}]", MAKEFILE)} - OWN
    assert {"PYTHON", "IMAGE", "SWITCHML_HOME"} & read
    assert [name for name in sorted(read) if not is_known(name)] == []


@pytest.mark.parametrize("path", sorted((ROOT / "ci").iterdir()), ids=lambda path: path.name)
def test_what_a_script_reads(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if not text.startswith("#!/bin/sh"):
        return
    read = {*re.findall(r"\$\{([A-Z_]+):[-?+]", text)} - OF_IMAGES
    assert [name for name in sorted(read) if not is_known(name)] == []


def test_what_a_build_reads() -> None:
    prefixes, others = re.split(r"\)_\\w\+", variables._READ.pattern.lstrip("("))
    names = {*variables._COMPILER, *tools.VARIABLES, *variables.NEUTRAL}
    names |= {*others.strip("|").split("|")}
    names |= {f"{one}_X" for one in prefixes.replace("(BLAS)?", "|OpenBLAS").split("|")}
    assert {"USE_X", "OpenBLAS_X", "VERBOSE", "CC"} <= names
    assert all(variables.is_read(name) for name in names - variables.NEUTRAL)
    assert [name for name in sorted(names) if not is_known(name)] == []


def test_what_the_tests_read() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    read = {name for one in texts for name in re.findall(r"\bSWITCHML_(?:TEST|FUZZ)_[A-Z]+", one)}
    assert read
    assert [name for name in sorted(read) if not is_known(name)] == []
