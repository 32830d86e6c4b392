"""The delegate's C++ without torch: several processes and threads, plain and under sanitizers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import messages, metrics, unprivileged, waiting
from support.delegate import (
    BUILDS,
    GROUP_MS,
    compile_alone,
    parts,
    render,
    run,
    sanitized,
)
from support.simulator import SANITIZERS
from support.waiting import captured

from patchgen.system.ports import free_port

LIMIT_MS = 2 * waiting.LIMIT_MS  # sanitizers take their time
LATE = messages.LATE.format(LIMIT_MS)
GLOO = f"{messages.STAYS}: "


@pytest.fixture(scope="session", params=list(BUILDS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sanitized(tmp_path_factory, request.param)


def delegated(program: Path, scenario: str, size: int, limit_ms: int, scratch: Path) -> list[str]:
    env = {-1: {"SWITCHML_TIMEOUT_MS": str(limit_ms), "SWITCHML_CHUNK_NUMEL": "1000"}}
    return run(program, scenario, size, scratch, env=env)


@pytest.mark.parametrize(
    ("scenario", "size"),
    [("concurrent", 3), ("race", 2), ("readers", 2), ("abandoned", 2)],
)
def test_delegate(program: Path, scenario: str, size: int, tmp_path: Path) -> None:
    output = delegated(program, scenario, size, GROUP_MS, tmp_path)
    assert messages.DELEGATES in output[0] or scenario == "race"
    assert "backend=" not in output[0], "the simulator has none"


def test_later_group_delegates(program: Path, tmp_path: Path) -> None:
    env = {-1: {"SWITCHML_GROUP": "2", "SWITCHML_REQUIRE": "1"}}
    output = run(program, "numbered", 2, tmp_path, env=env)[0]
    later = messages.LATER_GROUP.format(1, 2, 2)
    assert output.count(f"{GLOO}ranks 0-1: {later}\n") == 1
    assert output.count(f"{messages.DELEGATES} (") == 2


@pytest.mark.parametrize("program", ["address"], indirect=True)
@pytest.mark.parametrize(
    ("absent", "named"), [((0,), "rank 0"), ((2,), "rank 2"), ((0, 1), "ranks 0-1")]
)
def test_ranks_without_the_library(
    program: Path, absent: tuple[int, ...], named: str, tmp_path: Path
) -> None:
    """They answer the others, so all take Gloo at once, in each group."""
    why = "libgone.so.1: cannot open shared object file"
    output = run(program, "refused", 3, tmp_path, env={key: {"NO_LIBRARY": why} for key in absent})
    assert output[0].count(f"{GLOO}{named}: {why}\n") == 2
    for rank, lines in enumerate(output):
        warning = f"switchml: {messages.WARNING.format(rank)}{why}; {messages.STAYS}\n"
        assert lines.count(warning) == (rank in absent)


def test_bytes_of_other_groups(program: Path, tmp_path: Path) -> None:
    """Counted are those that SwitchML could have summed."""
    pages = tmp_path / "pages"
    pages.mkdir()
    env = {-1: {"SWITCHML_METRICS": str(pages)}}
    run(program, "outweighed", 2, tmp_path, env=env)
    for page in metrics.read(pages):
        assert page.value("switchml_other_group_bytes_total") == 2456


@pytest.mark.parametrize("program", ["address"], indirect=True)
def test_helper_of_a_rank(program: Path, tmp_path: Path) -> None:
    """It has the rank's environment, stays with Gloo at once, and says and writes nothing."""
    pages = tmp_path / "pages"
    pages.mkdir()
    env = {-1: {"SWITCHML_REQUIRE": "1", "SWITCHML_METRICS": str(pages)}}
    output = run(program, "assisted", 2, tmp_path, env=env)
    assert output[0].count("process group") == 1
    assert output[1] == ""
    assert [page.value("switchml_allreduces_total") for page in metrics.read(pages)] == [6, 6]


def test_states(program: Path, tmp_path: Path) -> None:
    """Of the delegation, the order and the library, of which each start has a number."""
    run(program, "states", 1, tmp_path)


def test_limits(program: Path, tmp_path: Path) -> None:
    """Side by side, as their ranks mostly wait."""
    scenarios = (
        "interrupted", "untaken", "late", "tardy", "queued", "consecutive", "apart", "aborted",
        "waiting",
    )  # fmt: skip
    with ThreadPoolExecutor(len(scenarios)) as pool:
        jobs = [
            pool.submit(delegated, program, scenario, 2, LIMIT_MS, tmp_path / scenario)
            for scenario in scenarios
        ]
        assert all(messages.DELEGATES in job.result()[0] for job in jobs)


def test_failover(program: Path, tmp_path: Path) -> None:
    """No sum is lost when a rank is later than the others wait; ranks that do not agree on it do
    not delegate."""
    env = {"SWITCHML_TIMEOUT_MS": str(LIMIT_MS), "SWITCHML_CHUNK_NUMEL": "1000"}
    on = {"SWITCHML_FAILOVER": "1", "SWITCHML_REQUIRE": "1"}  # of groups that will return as well
    for name, given in {"on": on, "off": {}}.items():
        scenario = "outlived" if given else "refused"
        rank_1 = {"SWITCHML_FAILOVER": "1"}
        output = run(program, scenario, 2, tmp_path / name, env={-1: {**env, **given}, 1: rank_1})
        if given:
            report = json.loads(output[0].splitlines()[-3])
            assert report["failover"].pop("seconds") > 0
            assert report["failover"].pop("reason").endswith(LATE)
            assert report["failover"] == {"failovers": 1, "returns": 0, "redone": 2, "calls": 12}
            assert output[0].count(f"{LATE}{messages.OVER_GLOO}\n") == 1
            assert f"{GLOO}ranks 0-1: group 2 of 2 ranks, and {messages.OTHER_GROUP}\n" in output[0]
            assert "the process group has ended; 12 allreduces went over Gloo, in " in output[0]
            assert "Gloo" not in output[1]
        else:
            assert messages.DIFFERS.format("rank 1: SWITCHML_FAILOVER=1", "none\n") in output[0]


@pytest.mark.parametrize("program", ["address"], indirect=True)
def test_a_job_that_is_taken_though_it_throws(program: Path, tmp_path: Path) -> None:
    """The library writes to its memory until it has stopped, which takes longer than the caller
    waits. The probe has memory of its own."""
    cases = {
        "probe": {"FAULT_JOB": "0"},
        "raised": {"FAULT_JOB": "2", "RAISES": "1"},
        "failover": {"FAULT_JOB": "2", "SWITCHML_FAILOVER": "1"},
    }

    def output(name: str) -> str:
        failover = {k: v for k, v in cases[name].items() if k == "SWITCHML_FAILOVER"}
        env = {-1: failover, 1: {"FAULT": "keep", "FAULT_MS": "1500", **cases[name]}}
        return "".join(run(program, "taken", 2, tmp_path / name, env=env, timeout_ms=LIMIT_MS))

    with ThreadPoolExecutor(len(cases)) as pool:
        for lines in pool.map(output, cases):
            assert f"{messages.UNSUBMITTED}std::bad_alloc" in lines


@pytest.mark.parametrize(("scenario", "size"), [("dropped", 3), ("ended", 2)])
def test_no_failover(program: Path, scenario: str, size: int, tmp_path: Path) -> None:
    """An allreduce that is dropped, and the ends of a group."""
    output = run(program, scenario, size, tmp_path, env={-1: {"SWITCHML_FAILOVER": "1"}})
    assert "goes over Gloo" not in output[0]


def test_return(program: Path, tmp_path: Path) -> None:
    """The ranks use their contexts again at call 64 after each failure, and in a new group."""
    env = {"SWITCHML_TIMEOUT_MS": str(LIMIT_MS), "SWITCHML_CHUNK_NUMEL": "1000"}
    output = run(program, "returned", 2, tmp_path, env={-1: {**env, "SWITCHML_FAILOVER": "1"}})
    for line in output:
        report = json.loads(next(word for word in line.splitlines() if word.startswith("{")))
        over = report["failover"]
        assert (over["failovers"], over["returns"], over["calls"]) == (2, 2, 2 * 63)
        assert LATE in over["reason"]
        assert (report["delegating"], report["failure"]) == (True, "")
        assert report["calls"] == 3 + 2 * 7
    assert output[0].count(f"{messages.OVER_GLOO}\n") == 2
    assert output[0].count(f"{messages.RETURNS.format(64)}\n") == 2
    assert output[0].count(f"switchml: {messages.GROUP.format(2)}allreduce(") == 2
    assert "Gloo" not in output[1]


def test_a_new_group_after_a_failure(program: Path, tmp_path: Path) -> None:
    """Also where the context of another rank still runs."""
    output = run(program, "renewed", 2, tmp_path, env={-1: {"SWITCHML_TIMEOUT_MS": str(LIMIT_MS)}})
    assert output[0].count(f"switchml: {messages.GROUP.format(2)}allreduce(") == 3
    assert "this rank no longer uses SwitchML" in output[0]


@pytest.mark.parametrize("program", ["address"], indirect=True)
def test_forked_child(program: Path, tmp_path: Path) -> None:
    """Not under ThreadSanitizer, which gives up after a fork of several threads."""
    run(program, "forked", 2, tmp_path)


@pytest.mark.parametrize("program", ["address"], indirect=True)
def test_a_child_of_a_process_that_makes_a_group(program: Path, tmp_path: Path) -> None:
    """A lock that a thread of the parent holds is nobody's in the child."""
    output = run(program, "midway", 2, tmp_path)
    assert messages.GROUP.format(2) + "allreduce(SUM, AVG)" in output[0]


DISABLED = {"SWITCHML_DISABLE": "1"}
RESTARTED = {"TORCHELASTIC_RESTART_COUNT": "1"}


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("program", ["address"], indirect=True)
def test_attempts_over_one_store(program: Path, late: int, tmp_path: Path) -> None:
    """The answers of an attempt are not taken for those of the next, whichever rank is later."""

    def attempt(name: str, *, delegates: bool, rank_1: dict[str, str], **more: str) -> str:
        env = {-1: {"DELEGATES": str(int(delegates)), **more}, 1: rank_1}
        env[late] = {**env.get(late, {}), "LATE_MS": "300"}
        store = tmp_path / "store"
        return run(program, "attempt", 2, tmp_path / name, env=env, store=store)[0]

    output = attempt("refused", delegates=False, rank_1=DISABLED)
    assert "rank 1: SWITCHML_DISABLE is set" in output
    assert "restart" not in output
    output = attempt("agreed", delegates=True, rank_1={}, **RESTARTED)
    assert messages.DELEGATES in output
    assert output.count("set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for torchrun") == 1
    apart = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    output = attempt("refused again", delegates=False, rank_1=DISABLED, **RESTARTED, **apart)
    assert "rank 1: SWITCHML_DISABLE is set" in output
    assert "restart" not in output


@pytest.mark.parametrize("program", ["address"], indirect=True)
def test_a_line_that_names_hosts(program: Path, tmp_path: Path) -> None:
    env, hosts = {0: {"SWITCHML_MIN_NUMEL": "5"}}, ("zeus", "apollo")
    output = run(program, "refused", 2, tmp_path, env=env, hosts=hosts)[0]
    assert messages.DIFFERS.format("rank 1 on apollo: SWITCHML_MIN_NUMEL=1", "5\n") in output


def all_may_write(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).chmod(0o777)


def somebody_elses(name: str) -> Callable[[Path], None]:
    return lambda directory: unprivileged.give(directory / name, 12_345)


def linked(directory: Path) -> None:
    """The rank's own directory is safe, that of the file is not."""
    shared = directory / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    file = directory / "switchml.cfg"
    file.rename(shared / "one.cfg")
    file.symlink_to(shared / "one.cfg")


@pytest.mark.parametrize(
    ("prepared", "why"),
    [
        (all_may_write("."), "{here} can be written by others; run `chmod go-w {here}`, or name"),
        (all_may_write("switchml.cfg"), "{here}/switchml.cfg can be written by others; run `chm"),
        (somebody_elses("."), "{here} belongs to user 12345; name the file in SWITCHML_CONFIG"),
        (somebody_elses("switchml.cfg"), "{here}/switchml.cfg belongs to user 12345; name the"),
        (linked, "{here}/shared can be written by others; run `chmod go-w {here}/shared`, or"),
    ],
)
@pytest.mark.parametrize("program", ["address"], indirect=True)
def test_a_configuration_that_others_could_have_written(
    program: Path, prepared: Callable[[Path], None], why: str, tmp_path: Path
) -> None:
    """It can name code to load. What the user names is used all the same."""
    output = run(program, "refused", 2, tmp_path / "found", prepared=prepared)
    message = "a switchml.cfg that others could have written"
    assert f"{GLOO}ranks 0-1: {message}\n" in output[0]
    for rank, line in enumerate(output):
        here = tmp_path / "found" / str(rank)
        fix = why.format(here=here)
        assert f"{messages.WARNING.format(rank)}{message} ({here}/switchml.cfg: {fix}" in line
    named = {
        rank: {"SWITCHML_CONFIG": str(tmp_path / "named" / str(rank) / "switchml.cfg")}
        for rank in range(2)
    }
    output = run(program, "delegated", 2, tmp_path / "named", prepared=prepared, env=named)
    assert messages.DELEGATES in output[0]


@pytest.mark.parametrize("seconds", ["1", "3600"])
def test_metrics(program: Path, seconds: str, tmp_path: Path) -> None:
    """Those of a process that has ended are those of its report."""
    pages = tmp_path / "pages"
    pages.mkdir()
    env = {"SWITCHML_METRICS": str(pages), "SWITCHML_METRICS_SECONDS": seconds}
    output = run(program, "measured", 2, tmp_path, env={-1: env, 0: {"SWITCHML_JOB": 'a "job"'}})
    found = metrics.read(pages)
    assert [metric.labels.get("job_id") for metric in found] == ['a "job"', None]
    assert len({metric.labels["group"] for metric in found}) == 1
    for rank, (metric, message) in enumerate(zip(found, output)):
        report = json.loads(message.splitlines()[-1])
        assert (report["calls"], report["fallbacks"]["op"]) == (3, 1)
        metric.check(report, rank=rank, size=2, state="ended")


@pytest.mark.parametrize("program", ["address"], indirect=True)
def test_metrics_of_ranks_that_do_not_delegate(program: Path, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    env = {"SWITCHML_METRICS": str(tmp_path / "pages"), **DISABLED}
    run(program, "refused", 2, tmp_path, env={-1: env})
    for metric in metrics.read(tmp_path / "pages"):
        assert metric.value("switchml_gloo_allreduces_total", reason="group") == 6
        assert metric.value("switchml_state", state="ended") == 1
        assert metric.value("switchml_allreduce_seconds_count") == 0


@pytest.mark.parametrize("program", ["address"], indirect=True)
def test_metrics_are_not_a_forked_childs(program: Path, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    run(program, "forked", 2, tmp_path, env={-1: {"SWITCHML_METRICS": str(tmp_path / "pages")}})
    found = metrics.read(tmp_path / "pages")
    assert [metric.labels["rank"] for metric in found] == ["0", "1"]
    assert [metric.value("switchml_allreduces_total") for metric in found] == [6, 6]


LARGE = str(2**64 - 1)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("SWITCHML_METRICS", "{}/none", "SWITCHML_METRICS is '{}/none': No such file or directory"),
        ("SWITCHML_METRICS", "{}/file", "SWITCHML_METRICS is '{}/file', not a directory"),
        *(
            (name, value, messages.NO_NUMBER.format(name, value, what))
            for name, value, what in (
                ("SWITCHML_METRICS_SECONDS", "x", "seconds"),
                ("SWITCHML_CHUNK_NUMEL", LARGE, f"elements up to {2**31}"),
                ("SWITCHML_QUANTIZATION_BUCKET_SIZE", LARGE, f"values up to {2**31}"),
                ("SWITCHML_QUANTIZATION_MINIMAL_SIZE", LARGE, f"elements up to {2**31}"),
            )
        ),
    ],
)
@pytest.mark.parametrize("program", ["address"], indirect=True)
def test_settings_that_cannot_be_used(
    program: Path, name: str, value: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    output = run(program, "refused", 2, tmp_path, env={1: {name: value.format(tmp_path)}})
    assert f"{GLOO}rank 1: {why.format(tmp_path)}" in output[0]
    assert messages.WARNING.format(1) + why.format(tmp_path) in output[1]


def written(text: str) -> Callable[[Path], None]:
    def write(directory: Path) -> None:
        (directory / "switchml.cfg").write_text(text)

    return write


ONE_FILE = """\
[general]
packet_numel = 256
num_worker_threads = 1
backend = ${BACKEND}
controller_port = ${PORT} # the simulator's
[backend.dpdk]
cores = auto
"""


def test_one_file_for_all_ranks(program: Path, tmp_path: Path) -> None:
    """Ranks fill in what only they know, and say what it is."""
    size = min(3, len(os.sched_getaffinity(0)))
    env = {"BACKEND": "dpdk", "PORT": str(free_port()), "BIG": f"--file-prefix={'x' * 100_000}"}
    text = ONE_FILE + "worker_ip = interface:lo\nextra_eal_options = ${BIG}\n"
    output = run(program, "reported", size, tmp_path, env={-1: env}, prepared=written(text))
    shown, cores = env["BIG"][:80], []
    private = f"--in-memory {shown}"[:80]
    for rank, message in enumerate(output):
        report = json.loads(message.splitlines()[-1])
        filled = report["filled_in"]
        assert filled.startswith(
            f"backend=dpdk controller_port={env['PORT']} extra_eal_options={shown}... "
            f"num_workers={size} rank={rank} worker_ip=127.0.0.1 cores="
        )
        assert filled.endswith(f" extra_eal_options={private}...")
        assert report["group"].endswith(f"; filled in: {filled})")
        cores.append(filled.partition("cores=")[2].split()[0])
    assert {int(core) for core in cores} <= os.sched_getaffinity(0)
    assert len(set(cores)) == size
    assert f" num_workers={size} rank=0 " in output[0].splitlines()[0]


@pytest.mark.parametrize("program", ["address"], indirect=True)
def test_what_cannot_be_filled_in(program: Path, tmp_path: Path) -> None:
    """All that can be wrong is in tests/cpp/filling.cpp."""
    env = {"BACKEND": "dpdk", "PORT": "1"}
    text = ONE_FILE + "worker_ip = auto"
    output = run(program, "refused", 2, tmp_path, env={-1: env}, prepared=written(text))
    why = "worker_ip = auto: the interface of the card is not k"
    assert re.search(f"{GLOO}rank.*{why}", output[0].splitlines()[0])


def test_threads(program: Path, request: pytest.FixtureRequest) -> None:
    """The threads that take parts of a row; no fork under ThreadSanitizer."""
    arguments = [] if request.node.callspec.params["program"] == "thread" else ["forked"]
    done = captured([program, "threads", *arguments], timeout=240)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


def test_header_is_cxx14(tmp_path: Path) -> None:
    """ProcessGroupGloo.cpp is C++14 in PyTorch 1.7.1."""
    render(tmp_path)
    (tmp_path / "user.cpp").write_text('#include "SwitchMLAllreduce.hpp"\n')
    for compiler in ("g++", "clang++"):
        command = [compiler, "-std=c++14", "-pedantic", "-Wall", "-Wextra", "-Werror"]
        subprocess.run([*command, "-fsyntax-only", "user.cpp"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_metrics_file(
    sanitizer: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Its text, how it is replaced while others read it, its thread and its end."""
    render(tmp_path)
    (tmp_path / "pages").mkdir()
    needed = (*SANITIZERS[sanitizer], str(parts(tmp_path_factory, sanitizer)))
    program = compile_alone("metrics", tmp_path, *needed)
    environ = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1"}
    done = captured([program, str(tmp_path / "pages")], env=environ, timeout=300)
    assert (done.stdout, done.stderr) == ("ok\n", "")
    metric = metrics.parse((tmp_path / "pages" / "page.prom").read_text())
    assert metric.labels == {"host": 'a"b\\c?d?', "rank": "1"}
    assert metric.value("one_total") == 12_345_678_901_234_567
    assert metric.value("two_total") == 1234.5
    assert [metric.value("three", state=state) for state in "xy"] == [1, 0]
    assert metric.value("four_seconds_bucket", le="0.00025") == 0
    assert metric.value("four_seconds_bucket", le="0.0005") == 1
    assert metric.value("four_seconds_bucket", le="+Inf") == 2
    assert metric.value("four_seconds_count") == 2
    assert metric.value("four_seconds_sum") == 3600.0003


def test_values_that_a_rank_fills_in(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    if not Path("/sys/devices/system/cpu/online").exists():
        pytest.skip("needs /sys: OpenMP knows no cores without, and binds no thread")
    render(tmp_path)
    needed = (*SANITIZERS["address"], str(parts(tmp_path_factory, "address")))
    program = compile_alone("filling", tmp_path, *needed)
    device = tmp_path / "sys/bus/pci/devices/0000:81:00.0"
    (device / "net/ens1f0").mkdir(parents=True)
    (device / "local_cpulist").write_text("2-3,6\n")
    done = captured([program, tmp_path / "sys"], timeout=300)
    assert (done.stdout, done.stderr) == ("ok\n", "")
