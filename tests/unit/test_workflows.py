"""The workflows' steps are targets of make and scripts of ci/, which have tests of their own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TARGETS = {*re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)}


def jobs() -> list[Any]:
    """Each job, with its workflow's name and its own before it."""
    return [
        pytest.param(job, id=f"{path.stem}-{name}")
        for path in sorted((ROOT / ".github" / "workflows").iterdir())
        for name, job in yaml.safe_load(path.read_text())["jobs"].items()
    ]


@pytest.mark.parametrize("job", jobs())
def test_what_a_job_runs_and_takes_is_there(job: dict[str, Any]) -> None:
    steps = job["steps"]
    (start,) = (n for n, step in enumerate(steps) if "actions/checkout@" in step.get("uses", ""))
    commands = [step["run"] for step in steps[start:] if "run" in step]
    assert commands
    for command in commands:
        program, *words = command.split()
        if program == "make":
            assert words[0] in TARGETS
        else:
            assert program.startswith("ci/")
            assert (ROOT / program).is_file()
    matrix = job.get("strategy", {}).get("matrix", {})
    rows = matrix.get("include", [])
    for name in re.findall(r"\bmatrix\.(\w+)", str(job)):
        assert name in matrix or (rows and all(name in row for row in rows)), name
