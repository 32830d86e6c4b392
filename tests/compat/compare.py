"""Compares results of run.py: sums of each way, and the tests that fail or are not as in stock.

    compare.py RESULTS.json...

The results are of one torch and its tests. Those of one way are added up.
"""

from __future__ import annotations

import collections
import json
import os
import re
import sys
from typing import Any

from run import WAYS

PATHS = re.compile(r"(?<![\w.])/[\w./-]+/")  # of the machine: only the last part is told
WORDS = 140

Tests = dict[str, dict[str, Any]]


def added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Joins two results of one test: the runs of both, and the reason of a failure."""
    return {
        "outcome": "failed" if one["failed"] + other["failed"] else other["outcome"],
        "why": (other if other["failed"] else one)["why"],
        "summed": max(one["summed"], other["summed"]),
        "runs": one["runs"] + other["runs"],
        "failed": one["failed"] + other["failed"],
    }


def gathered(paths: list[str]) -> dict[str, Tests]:
    """Tests by way."""
    found: dict[str, Tests] = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
        tests = found.setdefault(results["way"], {})
        for name, module in results["modules"].items():
            if module["code"] != 0:
                raise SystemExit(f"{path}: {name} did not run to its end (code {module['code']})")
            for test, answer in module["tests"].items():
                tests[test] = added(tests[test], answer) if test in tests else answer
    return {way: found[way] for way in WAYS if way in found}


def status(test: dict[str, Any]) -> str:
    if test["outcome"] != "failed":
        return str(test["outcome"])
    always = test["failed"] == test["runs"]
    often = "" if always and test["runs"] == 1 else f" in {test['failed']} of {test['runs']} runs"
    return f"failed{often} ({PATHS.sub('', test['why'])[:WORDS]})"


def counts(tests: Tests) -> str:
    number = collections.Counter(test["outcome"] for test in tests.values())
    summed = [test["summed"] for test in tests.values() if test["summed"]]
    delegated = f"{sum(summed)} allreduces of {len(summed)} tests by SwitchML"
    return ", ".join([*(f"{number[name]} {name}" for name in number), delegated])


def main() -> None:
    ways = gathered(sys.argv[1:])
    if "stock" not in ways:
        raise SystemExit(f"{os.path.basename(__file__)}: there are no results of stock")
    for way, tests in ways.items():
        sys.stdout.write(f"{way}: {counts(tests)}\n")
    for test in ways["stock"]:
        said = {way: status(ways[way][test]) if test in ways[way] else "not run" for way in ways}
        if len({*said.values()}) > 1 or said["stock"].startswith("failed"):
            sys.stdout.write(f"{test}: {'; '.join(' '.join(one) for one in said.items())}\n")


if __name__ == "__main__":
    main()
