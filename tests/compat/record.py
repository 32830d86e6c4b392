"""Writes the results of run.py into record.md, and their sums into docs/releases.md.

    record.py RESULTS.json...

The record has each test that is not as in stock. Results of the same
torch, tests and way are added up. What stands between the two marks of a page is replaced.
Differences are explained in explanations.json; one that is not says so.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from run import WAYS

if TYPE_CHECKING:
    from collections.abc import Mapping

BEGIN, END = "<!-- record -->\n", "<!-- end of record -->\n"
HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(HERE, "record.md")
RELEASES = os.path.join(HERE, "..", "..", "docs", "releases.md")
PATHS = re.compile(r"(?<![\w.])/[\w./-]+/")  # of the machine: only the last part is told
WORDS = 140

Tests = dict[str, dict[str, Any]]
Torch = tuple[str, str, str]  # version, Python, tests


def added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Joins two results of one test: the runs of both, and the reason of a failure."""
    failed = other if other["failed"] else one
    return {
        "outcome": "failed" if one["failed"] + other["failed"] else other["outcome"],
        "why": failed["why"],
        "summed": max(one["summed"], other["summed"]),
        "runs": one["runs"] + other["runs"],
        "failed": one["failed"] + other["failed"],
    }


def gathered(paths: list[str]) -> dict[Torch, dict[str, dict[str, Tests]]]:
    """Per torch, way and module: the tests."""
    found: dict[Torch, dict[str, dict[str, Tests]]] = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
        key = (results["torch"], results["python"], results["tests"])
        modules = found.setdefault(key, {}).setdefault(results["way"], {})
        for name, module in results["modules"].items():
            if module["code"] != 0:
                raise SystemExit(f"{path}: {name} did not run to its end (code {module['code']})")
            tests = modules.setdefault(name, {})
            for test, answer in module["tests"].items():
                tests[test] = added(tests[test], answer) if test in tests else answer
    return found


def status(test: dict[str, Any]) -> str:
    if test["outcome"] != "failed":
        return str(test["outcome"])
    always = test["failed"] == test["runs"]
    often = "" if always and test["runs"] == 1 else f" in {test['failed']} of {test['runs']} runs"
    why = PATHS.sub("", test["why"])
    return f"failed{often} ({why[:WORDS]})"


def counts(tests: Mapping[Any, dict[str, Any]]) -> str:
    number = collections.Counter(test["outcome"] for test in tests.values())
    words = [f"{number['passed']} passed"]
    words += [f"{number[name]} {name}" for name in ("failed", "skipped") if number[name]]
    return ", ".join(words)


def summing(tests: Mapping[Any, dict[str, Any]]) -> str:
    having = [test["summed"] for test in tests.values() if test["summed"]]
    return f"{len(having)} tests, {sum(having)} allreduces" if having else ""


def explanation(entries: list[dict[str, str]], torch: str, way: str, test: str) -> str:
    for entry in entries:
        if (
            torch.startswith(entry["torch"])
            and fnmatch.fnmatch(way, entry["way"])
            and fnmatch.fnmatch(test, entry["test"])
        ):
            return entry["text"]
    return "**Not explained.**"


def section(
    torch: Torch, ways: dict[str, dict[str, Tests]], entries: list[dict[str, str]]
) -> list[str]:
    version, python, source = torch
    present = [way for way in WAYS if way in ways]
    origin = "its own tests, as it is installed" if source == "torch" else f"tests of {source}"
    lines = [f"## torch {version}, Python {python}, {origin}", ""]
    names = [name for name, tests in ways["stock"].items() if tests]
    notes = []
    for name in names:
        for test in ways["stock"][name]:
            answers = {way: ways[way].get(name, {}).get(test) for way in present}
            said = {way: status(a) if a else "not run" for way, a in answers.items()}
            alike = len(set(said.values())) == 1
            if alike and not said["stock"].startswith("failed"):
                continue
            told = (
                [f"{said['stock']} in every way"] if alike else [" ".join(s) for s in said.items()]
            )
            other = next((w for w in present if said[w] != said["stock"]), "stock")
            why = explanation(entries, version, other, test)
            notes.append(f"- `{test}`: {'; '.join(told)}. {why}")
    if notes:
        lines += ["Tests that fail, or that are not alike:", "", *notes, ""]
    else:
        lines += ["Every test has the same outcome in every way, and none fails.", ""]
    return lines


def summary(found: dict[Torch, dict[str, dict[str, Tests]]]) -> list[str]:
    """Table with one row for each torch and source of tests."""
    names = ["torch", "tests of", *WAYS, "summed by SwitchML"]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for (version, _python, source), ways in found.items():
        whole = {
            way: {
                (name, test): one for name, tests in modules.items() for test, one in tests.items()
            }
            for way, modules in ways.items()
        }
        outcomes = {way: {n: t["outcome"] for n, t in whole[way].items()} for way in whole}
        cells = [version, "the wheel" if source == "torch" else source]
        for way in WAYS:
            alike = way != "stock" and outcomes.get(way) == outcomes["stock"]
            cells.append("as stock" if alike else counts(whole[way]) if way in whole else "")
        by = [summing(whole[way]) for way in WAYS if way in whole and way in {"graft", "plugin"}]
        lines.append(f"| {' | '.join([*cells, '; '.join(filter(None, by))])} |")
    return lines


def replace_between_marks(path: str, lines: list[str]) -> None:
    with open(path, encoding="utf-8") as file:
        page = file.read()
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    if not rest:
        raise SystemExit(f"{path}: has no line {BEGIN.strip()}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after)
    sys.stdout.write(f"wrote {path}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("results", nargs="+")
    parser.add_argument("--page", default=RECORD)
    parser.add_argument("--summary", default=RELEASES)
    parser.add_argument("--explanations", default=os.path.join(HERE, "explanations.json"))
    given = parser.parse_args()
    with open(given.explanations, encoding="utf-8") as file:
        entries = json.load(file)
    found = gathered(given.results)
    lines = []
    for torch, ways in found.items():
        if "stock" not in ways:
            raise SystemExit(f"torch {torch[0]}: there are no results of stock to compare with")
        lines += section(torch, ways, entries)
    replace_between_marks(given.page, lines)
    replace_between_marks(given.summary, [*summary(found), ""])


if __name__ == "__main__":
    main()
