"""The table of a report's fields, which C++ and Python read."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from patchgen.core.patch import fields, render
from patchgen.templates import DIRECTORY

TABLE = Path(DIRECTORY, "delegate", "src", "report", "fields.cpp")
LOADER = Path(DIRECTORY, "patch", "SwitchMLLoader.cpp")


def test_each_row_is_read() -> None:
    source = TABLE.read_text(encoding="utf-8")
    assert len(fields.table()) == source.count("-> FieldValue {")
    (kinds,) = re.findall(r"enum class FieldKind \{([^}]+)\}", source)
    assert {field.kind for field in fields.table()} == {*re.findall(r"\w+", kinds)}


def test_names_are_unique_and_have_a_help() -> None:
    for names in ([one.key for one in fields.table()], [one.metric for one in fields.table()]):
        assert {name: count for name, count in Counter(names).items() if name and count > 1} == {}
    for field in fields.table():
        assert field.key or field.metric
        assert re.fullmatch(r"(switchml_[a-z_]+)?", field.metric)
        assert field.metric.endswith("_total") == bool(field.metric and field.type == "counter")
        assert bool(field.labels) == (field.kind in {"kCounters", "kGauges"})
        assert re.fullmatch(r"[A-Z0-9].*\.", field.help), field


def test_members_of_an_object_follow_each_other() -> None:
    """The report is written in the order of the table."""
    objects = [field.key.partition(".")[0] for field in fields.table() if "." in field.key]
    begins = [one for before, one in zip(["", *objects], objects) if one != before]
    assert len({*begins}) == len(begins)


def test_the_module_has_the_default_of_each_key() -> None:
    module = ast.parse(render.report_module())
    (value,) = (
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_DEFAULTS"
    )
    assert ast.literal_eval(value) == fields.empty_report()
    assert fields.empty_report()["fallbacks"] == dict.fromkeys(
        ("group", "op", "dtype", "tensors", "numel"), 0
    )
    assert fields.empty_report()["packets"] is None


def test_the_loader_writes_keys_of_the_table() -> None:
    written = {*re.findall(r'\\"(\w+)\\": ', LOADER.read_text(encoding="utf-8"))}
    assert {"problem", "reason"} <= written <= {*fields.empty_report()}
