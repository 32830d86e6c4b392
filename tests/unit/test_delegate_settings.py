"""The delegate's table of settings, and the names of them elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

from patchgen.extras.doctor.payload.switchml_doctor import rank

ROOT = Path(__file__).parents[2]
JOIN = ROOT / "templates" / "delegate" / "src" / "join"
SOURCE = (JOIN / "settings.cpp").read_text(encoding="utf-8")
ROW = re.compile(r'\{(?:"(SWITCHML_\w+)"|(\w+)),\s*\[\].*?Shared::k(\w+)\}', re.DOTALL)
CONSTANT = r'constexpr const char\* {} = "(\w+)";'


def table() -> dict[str, str]:
    """Return for each variable when it is shared."""
    found = {}
    for name, constant, shared in ROW.findall(SOURCE):
        found[name or re.findall(CONSTANT.format(constant), SOURCE)[0]] = shared
    return found


def test_the_page_has_each_setting_and_marks_the_shared_ones() -> None:
    page = (ROOT / "docs" / "runtime.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`SWITCHML_\w+.*?`)( \*)? \|", page, re.MULTILINE)
    marks = {
        name: mark != "" for names, mark in rows for name in re.findall(r"SWITCHML_\w+", names)
    }
    settings = table()
    assert len(settings) == SOURCE.count("-> Field")
    assert {name: marks.get(name) for name in settings} == {
        name: shared != "No" for name, shared in settings.items()
    }
    assert {name for name in marks if marks[name]} <= {*settings}


def test_the_doctor_knows_its_filters() -> None:
    assert {*rank._FILTERS} <= {*table()}
