"""The delegate with the rules for the real client library: a simulator that passes for one.

Its structures do not depend on macros, so the delegate takes it for a library with DPDK and RDMA.
The linker puts faults in front of what the delegate calls.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support import messages, metrics
from support.configs import with_values
from support.delegate import (
    CPP,
    FAULTS,
    UNITED,
    compiled,
    environment,
    plain_parts,
    render,
    run,
    unite,
)
from support.shared import once
from support.simulator import Home
from support.waiting import LIMIT_MS, captured

from patchgen.extras.accuracy.fixed_point import may_overflow
from patchgen.system.ports import free_port

ROOT = Path(__file__).parents[3]
FIXED = (
    "commit=0123 flags=DPDK,DUMMY,TIMEOUTS "
    "fixes=glog,duplicates,stale-timers,fast-free,half-batch,foreign-frames,resent-id,late-answers"
)
SECTIONS = """
[backend.dpdk]
worker_port = 4000
cores = 0-3
[backend.rdma]
msg_numel = 1024
"""
DPDK = {"backend": "dpdk", "num_workers": 2}
GLOO = f"{messages.STAYS}: "


def build(
    directory: Path, parts: Path, simulator_home: Home, scenarios: Path, *, job_end: bool = True
) -> None:
    """Compile the program for a library with or without its fix `job-end`.

    The mark of the library is what the environment says.
    """
    shutil.copytree(parts, directory, dirs_exist_ok=True)
    home = directory / "home"
    shutil.copytree(simulator_home.prefix, home)
    headers = home / "include" / "switchml"
    hidden = {"common.h": "#define SWITCHML_SIMULATOR 1\n"}
    if not job_end:
        hidden["job.h"] = "  void CallAtEnd(std::function<void()> callback);\n"
    for name, line in hidden.items():
        text = (headers / name).read_text()
        assert text.count(line) == 1
        (headers / name).write_text(text.replace(line, ""))
    template = (home / "switchml.cfg").read_text()
    (directory / "switchml.cfg").write_text(template + SECTIONS)
    macros = (
        "-O0",
        "-DDPDK",
        "-DRDMA",
        "-DDUMMY",
        "-DTIMEOUTS",
        '-DSWITCHML_DELEGATE_CLIENT=std::getenv("MARK")',
    )
    sources = [scenarios, unite(directory, *UNITED), directory / "parts.o"]
    compiled("delegate", sources, home, directory, "clang++", *macros, *FAULTS)


@pytest.fixture(scope="session")
def scenarios(simulator_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The object of delegate.cpp, which includes nothing of the library."""

    def make(directory: Path) -> None:
        render(directory)
        options = ("clang++", "-O0", "-c", "-Wno-unused-command-line-argument")
        home = simulator_home.prefix
        compiled("delegate.o", [CPP / "delegate.cpp"], home, directory, *options)

    return once(tmp_path_factory, "delegate-scenarios", make) / "delegate.o"


@pytest.fixture(scope="session")
def built(simulator_home: Home, scenarios: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(directory: Path) -> None:
        build(directory, plain_parts(tmp_path_factory), simulator_home, scenarios)

    return once(tmp_path_factory, "delegate-real", make)


@pytest.fixture(scope="session")
def without_job_end(
    simulator_home: Home, scenarios: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    def make(directory: Path) -> None:
        parts = plain_parts(tmp_path_factory)
        build(directory, parts, simulator_home, scenarios, job_end=False)

    return once(tmp_path_factory, "delegate-without-job-end", make)


# What a configuration is refused for


def group_lines(built: Path, scratch: Path, *, all_sizes: bool = False, **given: Any) -> list[str]:
    """The lines of the program; values in capitals are of the environment."""
    env = {"MARK": FIXED, **{key: value for key, value in given.items() if key.isupper()}}
    values = {**DPDK, "timeout": 1000, **{k: v for k, v in given.items() if not k.isupper()}}
    config = scratch / "switchml.cfg"
    config.write_text(with_values((built / "switchml.cfg").read_text(), values))
    command = [str(built / "delegate"), "refusal", str(config), *(["all"] if all_sizes else [])]
    done = captured(command, env=environment(env), check=True, cwd=scratch)
    return done.stdout.splitlines()


LARGER = " (SWITCHML_ALLOW_LARGER_SWITCH=1: the switch runs a larger program)"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"num_workers": 33}, "num_workers = 33, but the switch program has room for 32" + LARGER),
        ({"num_workers": 33, "backend": "rdma"}, "num_workers = 33, but"),
        # Seven times 1,171 with four threads.
        (
            {"max_outstanding_packets": 4684},
            "max_outstanding_packets = 4684 with num_worker_threads = 4 needs 8197 slots, but the "
            "switch program has 8192" + LARGER,
        ),
        ({"max_outstanding_packets": 8193, "num_worker_threads": 1, "cores": 5}, "needs 8193 slo"),
        (
            {"max_outstanding_packets": 2064, "backend": "rdma"},
            "max_outstanding_packets = 2064 needs 516 queue pairs, but the switch program has 512 "
            "for a worker" + LARGER,
        ),
        (
            {"max_outstanding_packets": 16384, "backend": "rdma", "msg_numel": 16384},
            "needs 16384 slots",
        ),
        ({"cores": "0-2"}, "cores = 0-2 names 3 cores, but num_worker_threads = 4"),
        ({"cores": "0-2,1,2"}, "names 3 cores"),
        ({"cores": "7"}, "names 1 core, but"),
    ],
)
def test_what_the_switch_has_no_room_for(
    built: Path, tmp_path: Path, given: dict[str, Any], why: str
) -> None:
    (line,) = group_lines(built, tmp_path, **given)
    assert why in line


@pytest.mark.parametrize(
    "given",
    [
        {"num_workers": 32},
        {"num_workers": 32, "backend": "rdma"},
        {"max_outstanding_packets": 4681},
        {"max_outstanding_packets": 8192, "num_worker_threads": 1, "cores": 5},
        {"max_outstanding_packets": 2048, "backend": "rdma"},
        {"max_outstanding_packets": 8192, "backend": "rdma", "msg_numel": 4096},
        {"cores": "0,2,4-5"},
        {"cores": "(0-3)@1"},  # another way of writing: for the library to judge
        {"cores": "0", "backend": "rdma"},
    ],
)
def test_what_it_has_room_for(built: Path, tmp_path: Path, given: dict[str, Any]) -> None:
    (line,) = group_lines(built, tmp_path, **given)
    assert line.startswith("num_workers=")
    assert "SWITCHML_ALLOW" not in line


def test_a_larger_program_is_named(built: Path, tmp_path: Path) -> None:
    (line,) = group_lines(built, tmp_path, num_workers=33, SWITCHML_ALLOW_LARGER_SWITCH="1")
    assert line.endswith(" SWITCHML_ALLOW_LARGER_SWITCH=1")
    (line,) = group_lines(built, tmp_path, num_workers=32, SWITCHML_ALLOW_LARGER_SWITCH="1")
    assert "SWITCHML_ALLOW" not in line


REQUIRED = ("duplicates", "resent-id", "stale-timers", "half-batch", "foreign-frames", "fast-free")
ALL, LIST = ", ".join(REQUIRED), ",".join(REQUIRED)


@pytest.mark.parametrize(
    ("mark", "missing"),
    [
        ("", ALL),
        ("commit=0123 flags=DPDK fixes=-", ALL),
        *((f"flags=DPDK fixes={LIST.replace(one, 'glog')}", one) for one in REQUIRED),
        (f"fixes=not-{LIST.replace('timers', 'timers2')}", "duplicates, stale-timers"),
        (f"fixes=- more={LIST}", ALL),
    ],
)
def test_an_unfixed_library(built: Path, tmp_path: Path, mark: str, missing: str) -> None:
    (line,) = group_lines(built, tmp_path, MARK=mark)
    assert line.startswith(f"the client library lacks the fixes {missing}, and without them")
    assert "`switchml-patch client build --dpdk`" in line
    (line,) = group_lines(built, tmp_path, MARK=mark, SWITCHML_ALLOW_UNFIXED="1")
    assert line.endswith(f" SWITCHML_ALLOW_UNFIXED=1 lacks={missing.replace(' ', '')}")
    (line,) = group_lines(built, tmp_path, MARK=mark, backend="rdma")
    assert line.startswith("the client library lacks the fixes late-answers, and without them")
    assert "`switchml-patch client build --rdma`" in line


@pytest.mark.parametrize("timeout", ["10", "999.9"])
def test_rdma_that_sends_again_early(built: Path, tmp_path: Path, timeout: str) -> None:
    given: dict[str, Any] = {"backend": "rdma", "timeout": timeout}
    (line,) = group_lines(built, tmp_path, **given)
    assert line.startswith(f"timeout = {timeout}, but RDMA needs 1000 ms or more: ")
    (line,) = group_lines(built, tmp_path, **given, SWITCHML_ALLOW_UNFIXED="1")
    assert line.endswith(" SWITCHML_ALLOW_UNFIXED=1")
    for sound in ({**given, "timeout": 1000}, {**given, "backend": "dpdk"}):
        (line,) = group_lines(built, tmp_path, **sound)
        assert line.startswith("num_workers=")
        assert "SWITCHML_ALLOW" not in line


SHARED: dict[str, tuple[Any, ...]] = {
    "num_workers": (3, 4),
    "num_worker_threads": (2, 3),
    "max_outstanding_packets": (64, 128),
    "packet_numel": (64, 128),
    "backend": ("rdma",),
    "prepostprocessor": ("bypass",),
    "instant_job_completion": ("true",),
    "worker_port": (4321, 4322),  # an answer goes to the port of the packet that filled the slot
    "msg_numel": (2048, 4096),
    "SWITCHML_MIN_NUMEL": ("2", "7"),
    "SWITCHML_CHUNK_NUMEL": ("2", "7"),
    "SWITCHML_DTYPES": ("float32", "int32", "float32,int32"),
    "SWITCHML_OPS": ("SUM", "AVG"),
    "SWITCHML_QUANTIZATION_BITS": ("2", "4"),
    "SWITCHML_QUANTIZATION_BUCKET_SIZE": ("2", "7"),
    "SWITCHML_QUANTIZATION_MINIMAL_SIZE": ("2", "7"),
    "SWITCHML_QUANTIZATION_SKIP_INCOMPLETE_BUCKETS": ("1",),
    "SWITCHML_FAILOVER": ("1",),
    "SWITCHML_GROUP": ("2", "3", "7"),
}
"""Settings that must be the same on all ranks, with other values than the usual one."""


@pytest.mark.parametrize("name", SHARED)
def test_ranks_compare_what_must_be_the_same(built: Path, tmp_path: Path, name: str) -> None:
    """Each value differs from the usual one, and from each other one."""
    usual: dict[str, Any] = {"SWITCHML_QUANTIZATION_BITS": "8", "SWITCHML_ALLOW_FAKE_SUMS": "1"}
    usual["cores"] = "(0-3)@1"  # for any number of threads
    (before,) = group_lines(built, tmp_path, **usual)
    found = {before}
    for value in SHARED[name]:
        (line,) = group_lines(built, tmp_path, **{**usual, name: value})
        changed = {*line.split()} - {*before.split()}
        assert name in {term.partition("=")[0] for term in changed}, line
        found.add(line)
    assert len(found) == 1 + len(SHARED[name]), found


def test_runtime_marks_the_variables_that_must_be_the_same() -> None:
    rows = (ROOT / "docs" / "runtime.md").read_text()
    marked = re.findall(r"^\| `(SWITCHML_\w+)(?:=1)?` \* \|", rows, re.MULTILINE)
    assert marked == [name for name in SHARED if name.isupper()]


def test_a_group_whose_sums_may_overflow_stays_with_gloo(built: Path, tmp_path: Path) -> None:
    """The delegate has the rule of `switchml-patch accuracy`."""
    found = group_lines(built, tmp_path, all_sizes=True, SWITCHML_ALLOW_LARGER_SWITCH="1")
    wrong = [workers for workers in range(1, 65536) if may_overflow(workers)]
    assert [int(line.split(":")[0]) for line in found] == wrong
    assert found[0] == (
        "256: num_workers = 256: with so many workers the library's fixed point may overflow "
        "int32, with fewer than 256 it never does"
    )
    # What does not sum anyway cannot be spoilt.
    fake = {"backend": "dummy", "SWITCHML_ALLOW_FAKE_SUMS": "1"}
    assert not [
        line for line in group_lines(built, tmp_path, all_sizes=True, **fake) if "overflow" in line
    ]


# Groups


@contextlib.contextmanager
def controller() -> Iterator[int]:
    """A port where somebody listens, as a controller does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def ranks(
    built: Path, scenario: str, scratch: Path, env: dict[int, dict[str, str]], **given: Any
) -> list[str]:
    """Two ranks whose controller is there; see run()."""
    config = {**DPDK, **given.pop("config", {})}
    with controller() as port:
        base = {"MARK": FIXED, "FAULT_PORT": str(free_port()), **env.get(-1, {})}
        values = {"controller_port": port, **config}
        return run(
            built / "delegate", scenario, 2, scratch, env={**env, -1: base}, config=values, **given
        )


def test_delegates_when_the_probe_is_right(built: Path, tmp_path: Path) -> None:
    output = ranks(built, "delegated", tmp_path, {})
    assert f"{messages.DELEGATES} (num_workers=2" in output[0]
    assert output[1] == ""


def test_ranks_of_other_fixes_do_not_delegate(built: Path, tmp_path: Path) -> None:
    env = {-1: {"SWITCHML_ALLOW_UNFIXED": "1"}, 1: {"MARK": FIXED.replace("resent-id,", "")}}
    output = ranks(built, "refused", tmp_path, env)
    terms = ("SWITCHML_ALLOW_UNFIXED=1", "lacks=resent-id")
    why = ", ".join(messages.DIFFERS.format(term, "none") for term in terms)
    assert f"{GLOO}rank 1: {why}\n" in output[0]


@pytest.mark.parametrize(("job", "type_name"), [("0", "int32"), ("1", "float32")])
def test_wrong_sums_are_found_before_a_group_delegates(
    built: Path, tmp_path: Path, job: str, type_name: str
) -> None:
    """One rank hands in another value than its own, so the sums of all are wrong."""
    output = ranks(built, "refused", tmp_path, {1: {"FAULT": "flip", "FAULT_JOB": job}})
    first, later = [line for line in output[0].splitlines() if "process group" in line]
    assert f"{GLOO}ranks 0-1: {messages.WRONG_PROBE}1 of 132097 " in first
    assert f"{type_name} elements, the first is number 66048 with " in first
    assert f"{GLOO}ranks 0-1: SwitchML was given up: " in later


def test_two_jobs_whose_packets_cross(built: Path, tmp_path: Path) -> None:
    """Each switch has one rank 0 and one rank 1, but of two jobs: none of them delegates."""
    switches = [{"FAULT_PORT": str(free_port())} for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        jobs = []
        for number in range(2):
            env = {0: switches[number], 1: switches[1 - number]}
            jobs.append(pool.submit(ranks, built, "refused", tmp_path / str(number), env))
        for job in jobs:
            output = job.result()[0]
            for rank in range(2):
                assert f"rank {rank}: {messages.WRONG_PROBE}" in output


LATE_PROBE = "the probe of 132097 int32 elements" + messages.LATE


@pytest.mark.parametrize(
    ("scenario", "env"),
    [
        ("delegated", {}),
        ("late", {"SWITCHML_TIMEOUT_MS": str(LIMIT_MS), "FAULT": "hang", "FAULT_JOB": "5"}),
    ],
)
def test_a_library_that_calls_nobody_at_the_end_of_a_job(
    without_job_end: Path, tmp_path: Path, scenario: str, env: dict[str, str]
) -> None:
    output = ranks(without_job_end, scenario, tmp_path, {-1: env})
    assert (messages.LATE.format(LIMIT_MS) in output[0]) == (scenario == "late")


def test_a_probe_that_does_not_end(built: Path, tmp_path: Path) -> None:
    """As where no packet arrives: Gloo, within the group's timeout, and the process ends."""
    output = ranks(built, "refused", tmp_path, {-1: {"FAULT": "hang"}}, timeout_ms=8_000)
    late = LATE_PROBE.format(2000)
    assert f"{GLOO}ranks 0-1: {late}\n" in output[0]
    assert f"error: {late} (packets: 0 sent, 0 answered, 0 wrong, 0 timeouts); " in output[0]


def test_a_slow_start_is_no_missing_rank(built: Path, tmp_path: Path) -> None:
    """Rank 1 is late, and then its start takes too long: its peer hears of it in time."""

    def output(fault: str, lasts: str) -> list[str]:
        slow = {"STORE_LAG_MS": "500", "FAULT": fault, "FAULT_MS": lasts}
        return ranks(built, "refused", tmp_path / fault, {1: slow}, timeout_ms=8_000)

    with ThreadPoolExecutor() as pool:
        unended = pool.submit(output, "slow-start", "20000")
        ended = pool.submit(output, "slow-end", "6000")
        for job in (unended, ended):
            why = f"{GLOO}rank 1: {messages.UNSTARTED} within 4000 ms"
            assert why in job.result()[0]
    assert "context did not stop" in unended.result()[1]
    assert "context did not stop" not in ended.result()[1]


def test_a_library_that_waits_less_long_than_the_group(built: Path, tmp_path: Path) -> None:
    """The report of the rank that has waited for the other says so."""
    env = {-1: {"FAULT": "no-start", "SWITCHML_START_TIMEOUT_MS": "4000"}, 0: {"FAULT_MS": "3500"}}
    output = ranks(built, "refused", tmp_path, env)
    assert f"{GLOO}ranks 0-1: {messages.UNSTARTED}: see its messages" in output[0]


def test_a_slow_stop_is_no_missing_rank(built: Path, tmp_path: Path) -> None:
    """Rank 1 has to stop for a group whose timeout is shorter than a stop may take otherwise."""
    env = {"SWITCHML_TIMEOUT_MS": str(LIMIT_MS), "MARK": f"{FIXED},restart", "STAYS": "1"}
    slow = {"FAULT": "slow-stop", "FAULT_MS": "20000"}
    output = ranks(built, "renewed", tmp_path, {-1: env, 1: slow}, timeout_ms=8_000)
    assert f"{GLOO}rank 1: the SwitchML context has not stopped\n" in output[0]


def test_a_job_has_a_limit_of_its_own(built: Path, tmp_path: Path) -> None:
    """The group's timeout is a minute, and the job never ends.

    Nor does the context of the rank that has failed stop, so the process is ended.
    """
    (tmp_path / "pages").mkdir()
    env = {"SWITCHML_TIMEOUT_MS": str(LIMIT_MS), "FAULT": "hang", "FAULT_JOB": "5"}
    env["SWITCHML_METRICS"] = str(tmp_path / "pages")
    output = ranks(built, "late", tmp_path, {-1: env})
    assert messages.LATE.format(LIMIT_MS) in output[0]
    states = [
        [state for state in ("failed", "ended") if metric.value("switchml_state", state=state)]
        for metric in metrics.read(tmp_path / "pages")
    ]
    assert states == [["failed"], ["ended"]], "the other rank has not waited for it"


def test_a_library_that_hangs_is_outlived(built: Path, tmp_path: Path) -> None:
    """Its first job after the probe and three sums never ends."""
    env = {"SWITCHML_TIMEOUT_MS": str(LIMIT_MS), "FAULT": "hang", "FAULT_JOB": "5"}
    more = {"SWITCHML_FAILOVER": "1", "SWITCHML_CHUNK_NUMEL": "1000"}
    output = ranks(built, "hung", tmp_path, {-1: {**env, **more}})
    assert messages.LATE.format(LIMIT_MS) + messages.OVER_GLOO in output[0]


def test_the_input_of_a_job_that_hangs(built: Path, tmp_path: Path) -> None:
    """Its library reads it until it has stopped."""
    env = {
        "SWITCHML_TIMEOUT_MS": str(LIMIT_MS),
        "FAULT": "hang",
        "FAULT_JOB": "5",
        "FAULT_MS": "2500",
    }
    ranks(built, "kept", tmp_path, {-1: {**env, "SWITCHML_FAILOVER": "1"}})


def test_a_job_that_is_not_handed_over(built: Path, tmp_path: Path) -> None:
    """What follows it on its rank would be summed with what it is on the others."""
    env = {"SWITCHML_FAILOVER": "1", "PAUSE": "20"}
    output = ranks(built, "lost", tmp_path, {-1: env, 1: {"FAULT": "lose", "FAULT_JOB": "7"}})
    assert f"{messages.UNSUBMITTED}std::bad_alloc{messages.OVER_GLOO}" in output[0]


RETURNS = {
    "SWITCHML_TIMEOUT_MS": str(LIMIT_MS),
    "SWITCHML_FAILOVER": "1",
    "SWITCHML_CHUNK_NUMEL": "1000",
}
FIRST_TRY = "call 64 after the failure: rank 0: "
ONCE = "the client library starts once in a process, without its fix `restart`"


def test_return(built: Path, tmp_path: Path) -> None:
    """A library with the fix is started again, and its packets are counted on."""
    output = ranks(built, "returned", tmp_path, {-1: {**RETURNS, "MARK": f"{FIXED},restart"}})
    assert output[0].count(f"{messages.RETURNS.format(64)}\n") == 2


def test_a_library_that_starts_once(built: Path, tmp_path: Path) -> None:
    """The ranks stay with Gloo; they say so, and once."""
    output = ranks(built, "returned", tmp_path, {-1: {**RETURNS, "STAYS": "1"}})
    assert f"{FIRST_TRY}{ONCE}; {messages.STAYS}\n" in output[0]
    assert output[0].count("after the failure") == 1
    assert f"{GLOO}ranks 0-1: SwitchML was given up: rank 0: the allreduce of" in output[0]
    assert f"; {ONCE}\n" in output[0]


def test_one_library_that_starts_once(built: Path, tmp_path: Path) -> None:
    """The ranks do not delegate: what one returns from would end another."""
    output = ranks(built, "refused", tmp_path, {1: {"MARK": f"{FIXED},restart"}})
    assert messages.DIFFERS.format(f"{GLOO}rank 1: restart=1", "none\n") in output[0]


def test_a_timeout_too_short_to_return(built: Path, tmp_path: Path) -> None:
    """The others would not wait until late packets have left the network."""
    env = {-1: {**RETURNS, "STAYS": "1", "MARK": f"{FIXED},restart"}}
    output = ranks(built, "returned", tmp_path, env, timeout_ms=3_900)
    why = "a timeout of 3900 ms is too short for the SwitchML context to start again"
    assert f"{FIRST_TRY}{why}; {messages.STAYS}\n" in output[0]
    assert output[0].count("after the failure") == 1
    assert f"{GLOO}ranks 0-1: {why}\n" in output[0]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("flip", f"{messages.WRONG_PROBE}1 of 132097 int32 elements"),
        ("hang", LATE_PROBE.format(LIMIT_MS)),
    ],
)
def test_a_probe_that_keeps_the_ranks_with_gloo(
    built: Path, tmp_path: Path, fault: str, why: str
) -> None:
    """The probe of the first try, and of no later one."""
    env = {**RETURNS, "MARK": f"{FIXED},restart"}
    faulty = {"FAULT": fault, "FAULT_START": "1"}
    output = ranks(built, "retried", tmp_path, {-1: env, 1: faulty})
    assert f"{FIRST_TRY}{why}" in output[0]
    assert f"{messages.STAYS}, and SwitchML is tried again at call 128\n" in output[0]
    assert f"{messages.RETURNS.format(128)}\n" in output[0]


def test_a_start_ends_when_nobody_waits_for_it(built: Path, tmp_path: Path) -> None:
    """Rank 0 is refused, and rank 1 waits for it; the next try finds both stopped."""
    env = {**RETURNS, "MARK": f"{FIXED},restart"}
    refused = {"FAULT": "no-start", "FAULT_START": "1"}
    output = ranks(built, "retried", tmp_path, {-1: env, 0: refused}, timeout_ms=8_000)
    assert FIRST_TRY + messages.UNSTARTED in output[0]
    assert f"{messages.RETURNS.format(128)}\n" in output[0]


def test_what_has_no_place_in_the_fixed_point(built: Path, tmp_path: Path) -> None:
    """inf in a row that is summed in place, and in one that is copied."""
    ranks(built, "overflowed", tmp_path, {})


def test_the_least_number_of_elements(built: Path, tmp_path: Path) -> None:
    env = {
        "SWITCHML_MIN_NUMEL": "5",
        "SWITCHML_QUANTIZATION_BITS": "8",
        "SWITCHML_QUANTIZATION_MINIMAL_SIZE": "7",
    }
    ranks(built, "sized", tmp_path, {-1: env})


def test_a_controller_that_is_not_there(built: Path, tmp_path: Path) -> None:
    """The context is not started, which the real library would end the process for."""
    port = free_port()
    env = {-1: {"MARK": FIXED, "FAULT_PORT": str(free_port())}}
    config = {**DPDK, "controller_port": port}
    output = run(
        built / "delegate", "refused", 2, tmp_path, env=env, config=config, timeout_ms=8_000
    )
    why = f"the controller at 127.0.0.1:{port} cannot be reached: Connection refused"
    first, later = [line for line in output[0].splitlines() if "process group" in line]
    assert first.endswith(f"{GLOO}ranks 0-1: {why}")
    assert re.search(rf"{re.escape(why)} \(asked \d+ s ago\)$", later), "it waits no second time"
    assert f"{messages.WARNING.format(1)}{why} ({tmp_path / '1' / 'switchml.cfg'})" in output[1]


def test_what_does_not_sum_is_not_probed(built: Path, tmp_path: Path) -> None:
    """Nor does the dummy backend need a controller or fixes."""
    env = {-1: {"MARK": "", "SWITCHML_ALLOW_FAKE_SUMS": "1", "FAULT": "flip"}}
    output = run(built / "delegate", "forksafe", 2, tmp_path, env=env)
    assert (
        "WARNING: NOT REAL SUMS: allreduce(SUM, AVG) of float32, int32, bfloat16, float16 goes to"
        in output[0]
    )


@pytest.mark.parametrize(
    ("backend", "given", "after"), [("rdma", "", "1"), ("rdma", "0", "0"), ("dpdk", "", "")]
)
def test_rdma_is_made_safe_to_fork(
    built: Path, tmp_path: Path, backend: str, given: str, after: str
) -> None:
    names = ("RDMAV_FORK_SAFE", "RDMAV_HUGEPAGES_SAFE")
    env = {-1: dict.fromkeys(names, given) if given else {}}
    config = {"backend": backend, "timeout": 1000}
    for err in ranks(built, "forksafe", tmp_path, env, config=config):
        for name in names:
            assert f"{name}={after}\n" in err
        assert "SWITCHML_START_TIMEOUT_MS=\n" in err
