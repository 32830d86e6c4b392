"""How the plugin sums tensors of a device, on one that is simulated: no GPU, and no chance either.

The plugin's own files are compiled, with faults that the program turns on one at a time. Every
order in which the device may do its work is tried. SWITCHML_TEST_SANITIZER names a sanitizer, as
-fsanitize does.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from packaging.version import Version
from support.device import STAGING, compile_options, link_options
from support.staging_faults import (
    BEHIND,
    EARLY,
    FAULTS,
    IN_TURN,
    ONE_ORDER,
    PAGEABLE,
    PRESENT,
    SCENARIOS,
    SLOW,
    VARIANTS,
    varied,
)
from support.waiting import captured

from patchgen.core.patch import render
from patchgen.core.torch import Torch
from patchgen.extras.install.plugin import project, target
from patchgen.options import resolve

SANITIZER = os.environ.get("SWITCHML_TEST_SANITIZER")
SANITIZED = ["-g1", f"-fsanitize={SANITIZER}", "-fno-sanitize-recover=all"]


@dataclass(frozen=True)
class Found:
    """Numbers of orders.

    All, those with a wrong result, those in which no call waited, and those in which a part was
    copied back before the last one was copied out.
    """

    orders: int
    wrong: int
    free: int
    overlapped: int


@dataclass(frozen=True)
class Explored:
    """What was found, by variant and scenario, and the first wrong order of each."""

    found: Mapping[str, Mapping[str, Found]]
    wrong: str


def compiled(torch: Torch, clang: list[str], scratch: Path) -> Path:
    """All variants in one program, for the compiler takes far longer than the program."""
    wanted = replace(target.inspect(torch, {}), flight_recorder=False)
    files = project.sources(resolve({}, {}, "/nowhere"), wanted)
    for name, content in files.items():
        if name.endswith((".cpp", ".hpp", ".inc")):
            text = content.decode().replace("return [] {};", "return [] { client().record(); };")
            flat = name.removeprefix(f"{render.PROJECT}/").removeprefix("src/")
            (scratch / flat).parent.mkdir(parents=True, exist_ok=True)
            (scratch / flat).write_text(varied(flat, text))
    sources = [name for name in files if name.startswith("src/") and name.endswith(".cpp")]
    included = (f'#include "{name[4:]}"\n' for name in sources if name != "src/module.cpp")
    (scratch / "all_sources.inc").write_text("".join(included))
    table = ", ".join(f'"{name}"' for name in VARIANTS)
    (scratch / "variants.inc").write_text(f"const std::vector<std::string> kVariants{{{table}}};\n")
    # Headers that were precompiled without the sanitizer are refused.
    sanitized = ["clang++", *SANITIZED, *compile_options(torch), "-pthread"]
    compiler = [
        *(sanitized if SANITIZER else clang), "-Wall", "-Wextra", "-Werror", "-Wthread-safety",
        '-DSWITCHML_PLUGIN_DIGEST=""',
    ]  # fmt: skip
    shared = ["-shared", "-fPIC", str(STAGING / "cuda.cpp"), "-o", str(scratch / "libc10_cuda.so")]
    program = [
        f"-I{scratch}", str(STAGING / "staging.cpp"), "-o", str(scratch / "staging"),
        f"-L{scratch}", f"-Wl,-rpath,{scratch}", "-lc10_cuda", *link_options(torch), "-ldl",
    ]  # fmt: skip
    for options in (shared, program):
        done = captured([*compiler, *options])
        assert done.returncode == 0, done.stderr
    return scratch / "staging"


@pytest.fixture(scope="module")
def program(probed: Torch, clang: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(probed, clang, tmp_path_factory.mktemp("staging"))


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = captured([program, *arguments])
    assert done.returncode == 0, done.stderr[-5000:]
    return done


def explore(program: Path, *variants: str) -> Explored:
    found: dict[str, dict[str, Found]] = defaultdict(dict)
    done = run(program, "orders", *variants)
    for line in done.stdout.splitlines():
        name, scenario, *numbers = line.split()
        found[name][scenario] = Found(*map(int, numbers))
    return Explored(found, done.stderr)


@pytest.fixture(scope="module")
def explored(program: Path) -> Explored:
    """All scenarios of what is right, and those that find a fault."""
    faults = (f"{name}={','.join(made.wrong)}" for name, made in FAULTS.items())
    return explore(program, PRESENT, *IN_TURN, *(f"{name}=waiting" for name in SLOW), *faults)


def wrong(explored: Explored, name: str, among: AbstractSet[str] = SCENARIOS) -> set[str]:
    """The scenarios in which a variant may have a wrong result."""
    found = explored.found[name]
    assert {*found} == among
    assert all(
        result.orders > 1 or result.wrong or scenario in ONE_ORDER
        for scenario, result in found.items()
    )
    return {scenario for scenario, result in found.items() if result.wrong}


def test_right_in_every_order(explored: Explored) -> None:
    assert wrong(explored, PRESENT) == set(), explored.wrong


def expected(name: str, torch: Torch) -> AbstractSet[str]:
    """The scenarios that find a fault in this torch."""
    made, version = FAULTS[name], Version(torch.version)
    fixed = made.until is not None and version >= Version(made.until)
    return set() if fixed or version < Version(made.since) else made.wrong


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name: str, explored: Explored, probed: Torch) -> None:
    assert wrong(explored, name, FAULTS[name].wrong) == expected(name, probed)


@pytest.mark.rebuild
def test_faults_are_found_by_no_other_scenario(program: Path, probed: Torch) -> None:
    found = explore(program, *FAULTS)
    assert {name: wrong(found, name) for name in FAULTS} == {
        name: expected(name, probed) for name in FAULTS
    }


@pytest.mark.parametrize("scenario", sorted(EARLY | PAGEABLE))
def test_no_call_waits_for_the_device(scenario: str, explored: Explored) -> None:
    present = explored.found[PRESENT][scenario]
    assert present.free == present.orders


@pytest.mark.parametrize("name", sorted(SLOW))
def test_call_that_waits_is_found(name: str, explored: Explored) -> None:
    found = explored.found[name]["waiting"]
    assert (found.free, found.wrong) == (0, 0)


def test_parts_come_back_while_others_go(explored: Explored) -> None:
    present = explored.found[PRESENT]
    assert present["parts"].overlapped > 0
    assert present["waiting"].overlapped == 0


@pytest.mark.parametrize("name", sorted(IN_TURN))
def test_parts_that_come_back_after_all_have_gone_are_found(name: str, explored: Explored) -> None:
    assert explored.found[name]["parts"].overlapped == 0
    assert wrong(explored, name) == set()


def test_many_in_flight(program: Path) -> None:
    assert run(program, "threads", PRESENT, "50").stdout == "0 wrong\n"


def test_no_call_waits_for_a_later_one(program: Path) -> None:
    assert run(program, "queue", PRESENT, "20").stdout == "0 wrong\n"
    assert run(program, "queue", BEHIND, "5").stdout == "5 wrong\n"


def test_failure_does_not_wait_for_the_device_for_ever(program: Path) -> None:
    assert run(program, "failure").stdout == "right\n"


def test_cuda_is_asked_for_captures_where_torch_cannot_be(program: Path) -> None:
    assert run(program, "capture").stdout == "right\n"
