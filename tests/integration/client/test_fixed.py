"""Each fix in the real client library: its fault does not show, and does without it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import real_client

from patchgen.extras.client import checkout, fixes

STARTS = (
    "start-controller", "start-hangs", "start-cores", "start-option", "start-port",
    "start-address", "start-memory",
)  # fmt: skip
# A thread comes late to the lock of that number: one of them is the one that matters.
STOPS = (
    ("stop-dead",), ("stop-resending",), *(("stop-late", str(n)) for n in range(1, 7)),
    *(("stop-short", str(n)) for n in range(4)),
)  # fmt: skip
CASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "duplicates": (("duplicates",),),
    "resent-id": (("resent-id",),),
    "stale-timers": (("stale-timers",),),
    "half-batch": (("half-batch",),),
    "first-timeout": (("first-timeout",),),
    "foreign-frames": (("foreign-frames",), ("foreign-job",)),
    "fast-free": (("fast-free",),),
    "back-off": (("back-off",),),
    "flow-rules": (("plain",),),
    "cores": (("cores",),),
    "connection": (("connection",),),
    "refused": (("refused",),),
    "restart": (("restart",),),
    "stop": STOPS,
    "heap": (("heap",),),
    "job-sizes": (("job-sizes",),),
    "counts": (("counts",),),
    "job-end": (("job-end",),),
    "start-waits": tuple((name,) for name in STARTS),
}
"""Of each fix. Those that change headers, and so take longest, come last."""
UNBUILT = {
    "glog": "IsGoogleLoggingInitialized",
    "dpdk-names": "split_hdr_size",
    "job-end": "CallAtEnd",
}
"""Fixes without which the program cannot be built, and a word of the error."""
RDMA_CASES: dict[str, tuple[str, ...]] = {
    "completions": ("error", "no-number", "full"),
    "back-off": ("back-off",),
    "late-answers": ("late-answer",),
}
ROUNDINGS: dict[str, tuple[str, ...]] = {
    "sanitizer": ("-O1", "-fsanitize=float-cast-overflow", "-fno-sanitize-recover=all"),
}
if "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split():
    ROUNDINGS["avx512"] = ("-O3", "-mavx512f")


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> real_client.Workshop:
    sources = real_client.sources(tmp_path_factory.mktemp("cache"))
    asked = ["pkg-config", "--exists", "libdpdk"]
    if shutil.which("pkg-config") is None or subprocess.run(asked, check=False).returncode != 0:
        pytest.skip("needs DPDK and gRPC: apt-get install libdpdk-dev libgrpc++-dev")
    return real_client.Workshop(tmp_path_factory.mktemp("client"), sources)


@pytest.fixture(scope="session")
def with_rdma(tmp_path_factory: pytest.TempPathFactory) -> real_client.Workshop:
    """For libraries with RDMA, which run on a simulated card."""
    sources = real_client.sources(tmp_path_factory.mktemp("cache"))
    if not any(Path("/usr/include").glob("**/hugetlbfs.h")):
        pytest.skip("needs RDMA and gRPC: apt-get install libhugetlbfs-dev libgrpc++-dev")
    return real_client.Workshop(tmp_path_factory.mktemp("rdma"), sources)


@pytest.fixture(scope="session")
def fixed(workshop: real_client.Workshop) -> Callable[[], Path]:
    """The program with all fixes, built before any other."""
    program = workshop.root.parent / "fixed-faults"

    def built() -> Path:
        if not program.exists():
            shutil.copy(workshop.faults(workshop.home()), program)
        return program

    return built


@pytest.mark.parametrize("fix", CASES)
def test_the_fault_does_not_show(fixed: Callable[[], Path], fix: str) -> None:
    for case in CASES[fix]:
        done = real_client.provoke(fixed(), *case)
        assert done.returncode == 0, (case, done.stderr[-2000:])


@pytest.mark.parametrize("fix", [fix for fix in CASES if fix not in UNBUILT])
def test_the_fault_shows_without_the_fix(
    fixed: Callable[[], Path], workshop: real_client.Workshop, fix: str
) -> None:
    fixed()
    program = workshop.faults(workshop.home(fix))
    held = []
    for case in CASES[fix]:
        done = real_client.provoke(program, *case)
        if fix == "start-waits" and done.returncode == 0:
            held.append(case)
        elif fix != "start-waits" and done.returncode != 0:
            return
    # What a start does not reach must fail for each reason, and all else for one at least.
    assert fix == "start-waits"
    assert held == []


def test_a_simulated_card(with_rdma: real_client.Workshop) -> None:
    """No fault shows with all fixes, and each without its own."""
    program = with_rdma.faults(with_rdma.home(flags=["RDMA"]), "RDMA")
    for case in ("sums", *(case for cases in RDMA_CASES.values() for case in cases)):
        done = real_client.provoke(program, case)
        assert done.returncode == 0, (case, done.stderr[-2000:])
    for fix, cases in RDMA_CASES.items():
        program = with_rdma.faults(with_rdma.home(fix, flags=["RDMA"]), "RDMA")
        for case in cases:
            assert real_client.provoke(program, case).returncode != 0, (fix, case)


@pytest.mark.parametrize("way", ROUNDINGS)
def test_how_values_are_rounded(tmp_path: Path, way: str) -> None:
    sources = real_client.sources(tmp_path / "cache")
    program = real_client.quantizer(tmp_path / "fixed", sources, flags=ROUNDINGS[way])
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    faulty = real_client.quantizer(tmp_path / "faulty", sources, "rounding", flags=ROUNDINGS[way])
    done = subprocess.run([faulty], capture_output=True, text=True, check=False)
    assert done.returncode != 0


@pytest.mark.parametrize(("fix", "word"), UNBUILT.items())
def test_it_cannot_be_built_without_the_fix(
    workshop: real_client.Workshop, fix: str, word: str
) -> None:
    """With glog before 0.6 or DPDK before 21.11 it can, and this test says so."""
    with pytest.raises(subprocess.CalledProcessError) as raised:
        workshop.faults(workshop.home(fix))
    assert word in raised.value.stdout + raised.value.stderr


@pytest.fixture(
    scope="session", params=[fixes.LIBRARY, fixes.CONTROLLER], ids=["client", "controller"]
)
def part(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def sources(part: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a part of SwitchML."""
    return real_client.sources(tmp_path_factory.mktemp("cache"), part)


def test_none_of_its_text_is_in_the_fixes(part: str, sources: dict[str, bytes]) -> None:
    """Lines of calls and includes may be equal; sentences and longer statements may not."""
    theirs = {
        line.strip()
        for path, content in sources.items()
        if not path.startswith(checkout.PROTOS)
        for line in content.decode().splitlines()
    }
    ours = [
        line.strip()
        for fix in fixes.read_shipped(part)
        for one in fix.files
        for edit in one.edits
        for line in edit.text.splitlines()
    ]
    equal = {line for line in ours if line in theirs and len(line) > 20}
    plain = re.compile(r"#\s*(include|if|ifdef|endif|define)\b.*|} // namespace switchml|.{0,45};")
    assert {line for line in equal if not plain.fullmatch(line)} == set()


def test_the_patch_applies_to_a_checkout(
    part: str, sources: dict[str, bytes], tmp_path: Path
) -> None:
    from patchgen.core.patch import diff

    everything = fixes.read_shipped(part)
    after = fixes.apply(everything, sources)
    fixes.verify(everything, after, part)
    for path, content in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    text = b"".join(diff.between(p, sources.get(p), after[p]) for p in sorted(after))
    (tmp_path / "fixes.patch").write_bytes(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "fixes.patch"], cwd=tmp_path, check=True)
    for path, content in after.items():
        assert (tmp_path / path).read_bytes() == content
