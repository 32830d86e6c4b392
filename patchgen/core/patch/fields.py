"""The fields of a rank's report and of its metrics, read from the delegate's own table.

The table is `kFields` in `templates/delegate/src/report/fields.cpp`. The defaults of
`torch.distributed.switchml`, the tables of the reference and the dashboard are made from it.
"""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from patchgen.templates import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Sequence

_TABLE = os.path.join(DIRECTORY, "delegate", "src", "report", "fields.cpp")
_CELL = r'(?:\s*"[^"]*")+,|\s*[\w:]+,'
_ROW = re.compile(rf"\{{((?:{_CELL})+)\s*\[\]\(")
_GAUGES = ("kTimestamp", "kGauges")


class Field(NamedTuple):
    """A row of the table."""

    key: str
    """Key in the report; OBJECT.KEY for a member of an object. Empty if it is not there."""
    metric: str
    """Name of the metric, or empty."""
    kind: str
    """Enumerator of the value's kind."""
    labels: str
    """Name of the metric's label and its values, separated by blanks; or empty."""
    help: str

    @property
    def type(self) -> str:
        """Type of the metric as Prometheus names it."""
        if self.kind == "kHistogram":
            return "histogram"
        return "gauge" if self.kind in _GAUGES else "counter"

    @property
    def label(self) -> str:
        """Name of the metric's label, or empty."""
        return self.labels.partition(" ")[0]

    @property
    def label_values(self) -> Sequence[str]:
        """Values of the label, which are keys of an object in the report."""
        return self.labels.split()[1:]

    def default(self) -> object:
        """Return the value in the report of a process that has not used SwitchML."""
        return {
            "kText": "",
            "kBoolean": False,
            "kSeconds": 0.0,
            "kTexts": [],
            "kTerms": {},
            "kCounters": dict.fromkeys(self.label_values, 0),
        }.get(self.kind, 0)


@functools.cache
def table() -> tuple[Field, ...]:
    """Return all rows, in the order of the table."""
    with open(_TABLE, encoding="utf-8") as file:
        rows = _ROW.findall(file.read())
    return tuple(Field(*map(_cell, re.findall(_CELL, row))) for row in rows)


def _cell(text: str) -> str:
    """Return the value of a cell: adjacent string literals are one."""
    literals = re.findall('"([^"]*)"', text)
    return "".join(literals) if literals else text.strip(" \n,").rpartition(":")[2]


def empty_report() -> dict[str, Any]:
    """Return the report of a process whose delegate library is not loaded.

    An object whose members the client library may lack is None.
    """
    report: dict[str, Any] = {}
    for field in table():
        if not field.key:
            continue
        outer, dot, inner = field.key.partition(".")
        if not dot:
            report[outer] = field.default()
        elif field.kind == "kOptional":
            report.setdefault(outer, None)
        else:
            report.setdefault(outer, {})[inner] = field.default()
    return report
