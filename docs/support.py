"""Print docs/support.md from the pins and docs/support.json; `make docs` writes it.

The rows of docs/support.json are everything that was built and run: a release of PyTorch, a
variant, the target of make that does it or "by hand", the system, and the result, perhaps on a GPU.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import click
from jinja2 import Template
from packaging.version import Version

from docs.reference import table
from patchgen.core import recipes
from patchgen.core.patch import pins
from patchgen.core.patch.pins import Pin

VARIANTS = ("patch", "whole build", "graft", "plugin")
HAND = "by hand"
PLUGIN_FROM = Version("1.13")
NO_HOOKS_FROM = Version("2.14")
"""From here on a group can get other ranks, which no hook follows."""

_DOCS = Path(__file__).parent
RUNS: list[dict[str, str]] = json.loads((_DOCS / "support.json").read_text(encoding="utf-8"))


def cell(release: str, variant: str, pin: Pin | None) -> str:
    """Return who has run a variant of a release, or else what it needs."""
    runs = [run for run in RUNS if (run["torch"], run["variant"]) == (release, variant)]
    targets = dict.fromkeys(" ".join(run["by"].split()[:2]) for run in runs if run["by"] != HAND)
    gpus = dict.fromkeys(run["gpu"] for run in runs if "gpu" in run)
    found = [f"`{target}`" for target in targets]
    if any(run["by"] == HAND for run in runs):
        found.append(", ".join([HAND, *gpus]))
    return "; ".join(found) or need(release, variant, pin)


def need(release: str, variant: str, pin: Pin | None) -> str:
    """Return what a variant needs that nobody has run."""
    if variant == "plugin":
        return "not run" if Version(release) >= PLUGIN_FROM else "no"
    if pin is not None:
        return "not run" if variant != "whole build" or pin.recipe else "not run, no recipe"
    return "own pin" if Version(release) < NO_HOOKS_FROM else "no"


def matrix() -> list[str]:
    """Return the table of who has run which variant of which release."""
    by_version = {pin.version: pin for pin in pins.shipped()}
    rows = []
    for release in sorted({*by_version, *(run["torch"] for run in RUNS)}, key=Version):
        pin = by_version.get(release)
        commit = f"`{pin.commit[:10]}`" if pin else ""
        rows.append((release, commit, *(cell(release, variant, pin) for variant in VARIANTS)))
    return table(" | ".join(["PyTorch", "pin", *VARIANTS]), rows)


def runs() -> list[str]:
    """Return the table of what was run."""
    rows = [
        (
            *(run["torch"], run["variant"]),
            run["by"] if run["by"] == HAND else f"`{run['by']}`",
            *(run["system"], run["result"], run.get("gpu", "")),
        )
        for run in RUNS
    ]
    return table("PyTorch | variant | by | torch, system | result | GPU", rows)


def limits() -> list[str]:
    """Return the table of what each pin with a recipe builds with."""
    rows = [
        (pin.version, name, f"`{versions}`" if versions else "any")
        for pin in pins.shipped()
        for name, versions in recipes.read(pin).limits.items()
    ]
    return table("PyTorch | program or package | versions", rows)


def text() -> str:
    pythons = runpy.run_path(str(_DOCS.parent / "noxfile.py"))["PYTHONS"]
    template = (_DOCS / "support.md.j2").read_text(encoding="utf-8")
    page: str = Template(template, keep_trailing_newline=True).render(
        matrix="\n".join(matrix()),
        runs="\n".join(runs()),
        limits="\n".join(limits()),
        pythons=f"{pythons[0]} to {pythons[-1]}",
    )
    return page


if __name__ == "__main__":
    click.echo(text(), nl=False)
