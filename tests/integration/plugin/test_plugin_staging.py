"""How the plugin sums tensors of a device, on one that is simulated: no GPU, and no chance either.

The plugin's own files are compiled, with faults that the program turns on one at a time. Every
order in which the device may do its work is tried. SWITCHML_TEST_SANITIZER names a sanitizer, as
-fsanitize does.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.waiting import ENOUGH

from patchgen.options import resolve
from patchgen.plugin import project, target
from patchgen.system import interpreter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.system.interpreter import Torch

pytestmark = pytest.mark.integration

CPP = Path(__file__).parents[2] / "cpp" / "staging"
SANITIZER = os.environ.get("SWITCHML_TEST_SANITIZER")
# clang is quicker with torch's headers, but its sanitizers are a package of their own in Debian.
SANITIZED = ["g++", "-g1", f"-fsanitize={SANITIZER}", "-fno-sanitize-recover=all"]

STAGING, GROUP = "Staging.hpp", "ProcessGroupSwitchML.cpp"
AMONG = {"parts_among_sources"}
CUT = {"parts", "parts_scattered", *AMONG}
WHOLE = {"waiting", "again", "streams", "elsewhere", "strided", "scattered", "blocked"}
WAITED = {*WHOLE, *CUT, "parts_of_strided"}
FUTURES = {"future", "callback"}
PAGEABLE = {"pageable"}  # the host waits for copies from the device to memory that is not pinned
REUSED = {"dropped", "unwaited"}
SCATTERED = {"scattered_away"}
FAILED = {"failed", "parts_failed"}
SCENARIOS = {*WAITED, *FUTURES, *PAGEABLE, *REUSED, *SCATTERED, *FAILED}


@dataclass(frozen=True)
class Fault:
    """A part of the plugin, statements or an expression, and what is there instead."""

    file: str
    part: str
    instead: str
    wrong: frozenset[str]
    """The scenarios in which a result is wrong then."""
    before: str
    """What stands before the part, and stays."""


def fault(file: str, part: str, instead: str = "", *, wrong: set[str], before: str = "") -> Fault:
    return Fault(file, part, instead, frozenset(wrong), before)


PRESENT = "present"
FAULTS = {
    "no_wait_for_the_producer": fault(
        STAGING, "    done_.block(out_);\n", wrong=WAITED | FUTURES | PAGEABLE
    ),
    "no_wait_of_the_host": fault(STAGING, "    settle();\n", wrong=WAITED | FUTURES),
    "another_part_awaited": fault(STAGING, "(last - 1) / size_", "0 * last", wrong=CUT - AMONG),
    "given_back_among_sources": fault(STAGING, "(scatters_)", "(false)", wrong=AMONG),
    "stream_not_recorded": fault(
        STAGING,
        "    c10::impl::VirtualGuardImpl(device_.type())\n"
        "        .recordDataPtrOnStream(tensor.storage().data_ptr(), stream);\n",
        "    static_cast<void>(tensor);\n    static_cast<void>(stream);\n",
        wrong=REUSED | SCATTERED,
    ),
    "target_not_recorded": fault(
        STAGING, "use(tensor, back_)", "use(tensor, out_)", wrong=REUSED | SCATTERED
    ),
    "no_wait_of_the_consumer": fault(GROUP, "      staging_->block();\n", wrong=WAITED | PAGEABLE),
    "future_without_the_stream": fault(
        GROUP,
        "    end(failure, targets_);\n",
        "    guard.reset();\n    end(failure, targets_);\n",
        wrong=FUTURES,
    ),
    "no_wait_after_a_failure": fault(
        GROUP, "staging_->settle()", "static_cast<void>(0)", wrong={"parts_failed"}
    ),
    "event_not_recorded": fault(STAGING, "    done_.record(back_);\n", wrong=WAITED | PAGEABLE),
}
SLOW = "copy_back_awaited"
IN_TURN = "copies_in_turn"
VARIANTS: Mapping[str, Fault | None] = {
    PRESENT: None,
    **FAULTS,
    SLOW: fault(
        STAGING,
        "    done_.record(back_);\n",
        "    done_.record(back_);\n    settle();\n",
        wrong=set(),
    ),
    IN_TURN: fault(STAGING, "ownStream()", "out_", before="back_(", wrong=set()),
}


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


def varied(file: str, text: str) -> str:
    """A file of the plugin in which each variant has its own parts."""
    others: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for name, made in VARIANTS.items():
        if made and made.file == file:
            others[made.before, made.part][name] = made.instead
    for (before, part), instead in others.items():
        assert text.count(before + part) == 1, f"{file} has this no more: {before}{part}"
        whole = part
        for name, other in instead.items():
            runs = f'::variantIs("{name}")'
            if part.endswith(";\n"):
                whole = f"    if ({runs}) {{\n{other}    }} else {{\n{whole}    }}\n"
            else:
                whole = f"({runs} ? {other} : {whole})"
        text = text.replace(before + part, before + whole)
    return text


def compiled(torch: Torch, scratch: Path) -> Path:
    """All variants in one program, for the compiler takes far longer than the program."""
    wanted = target.inspect(torch)
    for name, content in project.sources(resolve({}, {}, "/nowhere"), wanted).items():
        if name.endswith((".cpp", ".hpp", ".inc")):
            (scratch / name).write_text(varied(name, content.decode()))
    table = ", ".join(f'"{name}"' for name in VARIANTS)
    (scratch / "variants.inc").write_text(f"const std::vector<std::string> kVariants{{{table}}};\n")
    headers = [*torch.include_dirs, torch.python_include]
    done = subprocess.run(
        [
            *(SANITIZED if SANITIZER else ["clang++"]), f"-std=c++{wanted.standard}",
            "-O0", "-pthread", "-Wall", "-Wextra", "-Werror",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}", f"-I{CPP}", f"-I{scratch}",
            *(option for directory in headers for option in ("-isystem", directory)),
            CPP / "staging.cpp", "-o", scratch / "staging",
            f"-L{torch.lib_dir}", f"-Wl,-rpath,{torch.lib_dir}", "-ltorch_cpu", "-lc10",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return scratch / "staging"


@pytest.fixture(scope="module")
def program(torch: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    asked = interpreter.ask(str(torch), os.environ, torch=True).with_gloo()
    return compiled(asked, tmp_path_factory.mktemp("staging"))


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=ENOUGH
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done


@pytest.fixture(scope="module")
def explored(program: Path) -> Explored:
    found: dict[str, dict[str, Found]] = defaultdict(dict)
    done = run(program, "orders")
    for line in done.stdout.splitlines():
        name, scenario, *numbers = line.split()
        found[name][scenario] = Found(*map(int, numbers))
    return Explored(found, done.stderr)


def wrong(explored: Explored, name: str) -> set[str]:
    """The scenarios in which a variant may have a wrong result."""
    found = explored.found[name]
    assert {*found} == SCENARIOS
    assert all(result.orders > 1 or result.wrong for result in found.values())
    return {scenario for scenario, result in found.items() if result.wrong}


def test_right_in_every_order(explored: Explored) -> None:
    assert wrong(explored, PRESENT) == set(), explored.wrong


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name: str, explored: Explored) -> None:
    assert wrong(explored, name) == FAULTS[name].wrong


def test_no_call_waits_for_the_device(explored: Explored) -> None:
    present, slow = (explored.found[name]["waiting"] for name in (PRESENT, SLOW))
    assert present.free == present.orders
    assert slow.free == 0
    assert wrong(explored, SLOW) == set()


def test_parts_come_back_while_others_go(explored: Explored) -> None:
    present, in_turn = (explored.found[name]["parts"] for name in (PRESENT, IN_TURN))
    assert present.overlapped > 0
    assert in_turn.overlapped == 0
    assert explored.found[PRESENT]["waiting"].overlapped == 0
    assert wrong(explored, IN_TURN) == set()


def test_many_in_flight(program: Path) -> None:
    assert run(program, "threads", PRESENT, "50").stdout == "0 wrong\n"
