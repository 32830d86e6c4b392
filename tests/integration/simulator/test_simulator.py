from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.simulator import (
    ANSWER_S,
    CPP,
    DATA,
    HEADER,
    HELLO,
    JOB,
    SANITIZERS,
    SANITIZING,
    STRICT,
    WELCOME,
    Home,
    Job,
    Worker,
    fixed_point_sum,
    frame,
    hello,
    installed_home,
    job,
    packets,
    received,
    started,
)

from patchgen.errors import ToolError
from patchgen.extras.lab import simulator
from patchgen.extras.lab.simulator import compose_simulated, install
from patchgen.system.ports import free_port
from patchgen.system.process import run

MIB = 2**20


@pytest.fixture(scope="session", params=SANITIZERS)
def sanitized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_home(tmp_path_factory, request.param).driver


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def float_tensors(rng: np.random.Generator, workers: int, numel: int) -> list[NDArray[np.float32]]:
    return [
        (rng.standard_normal(numel) * 10.0 ** rng.integers(-6, 6, numel)).astype(np.float32)
        for _ in range(workers)
    ]


def assert_same(results: list[bytes], expected: NDArray[np.generic]) -> None:
    assert results == [expected.tobytes()] * len(results)


@pytest.mark.parametrize("bypass", [True, False])
@pytest.mark.parametrize(("workers", "numel"), [(2, 1), (3, 300_007), (4, 5)])
def test_sums_equal_the_reference_bit_for_bit(
    driver: Path,
    tmp_path: Path,
    rng: np.random.Generator,
    workers: int,
    numel: int,
    *,
    bypass: bool,
) -> None:
    """int32 wraps around; with bypass floats are added in the ranks' order."""
    whole = [rng.integers(-(2**31), 2**31, numel, dtype=np.int32) for _ in range(workers)]
    tensors = float_tensors(rng, workers, numel)
    expected = fixed_point_sum(tensors, packets(numel))
    if bypass:
        expected = sum(tensors[1:], start=tensors[0])
    with started(driver, tmp_path, workers, bypass=bypass) as group:
        for mode in ("", "inplace"):
            assert_same(group.reduce(whole, mode), sum(whole[1:], start=whole[0]))
            assert_same(group.reduce(tensors, mode), expected)
    if bypass:
        return
    exact = np.sum([tensor.astype(np.float64) for tensor in tensors], axis=0)
    for cut in packets(numel):
        largest = max(float(np.abs(tensor[cut]).max()) for tensor in tensors)
        # Half a unit for each worker, and the float32 rounding of values and result.
        unit = workers * 2 * largest / 2**31
        bound = workers * (unit / 2 + 2 * largest * 2.0**-23)
        assert np.abs(expected[cut] - exact[cut]).max() <= bound


def test_one_worker_and_no_elements(driver: Path, tmp_path: Path) -> None:
    with started(driver, tmp_path, 1, bypass=True) as group:
        tensor = np.array([1.5, -2.25], np.float32)
        assert_same(group.reduce([tensor]), tensor)
        assert_same(group.reduce([tensor[:0]]), tensor[:0])


def test_large_tensors_and_several_outstanding_jobs(
    driver: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    with started(driver, tmp_path, 4) as group:
        assert all(float(time_us) > 0 for time_us in group.ask(f"bench float32 {MIB} 1"))
        tensors = float_tensors(rng, 4, MIB // 2)
        assert_same(group.reduce(tensors), fixed_point_sum(tensors, packets(MIB // 2)))
        for _ in range(20):
            group.ask(*(f"submit int32 70000 {rank + 1}" for rank in range(4)))
        assert group.ask("wait-all") == ["all"] * 4
        assert group.ask("wait") == [" ".join(["FINISHED=10"] * 20)] * 4
        assert group.ask("storm 4 25 300") == ["0 wrong"] * 4
        assert group.ask("stats")[0] == f"122 122 {3 * MIB // 2 + 20 * 70000 + 100 * 300}"


def test_a_job_begins_before_the_last_answers_of_the_one_before(
    driver: Path, tmp_path: Path
) -> None:
    """The first job has 32 chunks. A worker has 512 KiB, 16 of them, under way at most."""
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(job(driver, tmp_path, 2, limit_ms=20_000))
        switch = stack.enter_context(socket.create_server(("127.0.0.1", group.port)))
        group[1].tell("start")
        worker = stack.enter_context(switch.accept()[0])

        def read() -> tuple[int, bytes]:
            header = received(worker, HEADER.size)
            kind, size, _ = HEADER.unpack(header)
            return kind, header + received(worker, size)

        assert read()[0] == HELLO
        worker.sendall(frame(WELCOME))
        assert group[1].answer() == "true"
        group[1].ask(f"submit int32 {MIB // 4} 1")
        assert read()[0] == JOB
        ahead = [read() for _ in range(16)]
        assert sum(len(octets) - HEADER.size for _, octets in ahead) == MIB // 2
        group[1].ask("submit int32 1 1")
        worker.sendall(b"".join(octets for _, octets in ahead))
        assert [read()[0] for _ in range(17)] == [DATA] * 16 + [JOB]


def test_the_interface_of_counters_and_ends(driver: Path, tmp_path: Path) -> None:
    """The cases `counts` and `job-end` of tests/cpp/client_faults.cpp test the real library."""
    with job(driver, tmp_path, 1) as group:
        assert group.ask("interface") == ["holds"]


def test_packets_are_counted(driver: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    with started(driver, tmp_path, 2) as group:
        group.ask("submit int32 70000 1")
        group.ask("wait-all")
        sent = sum(1 for _ in packets(70000))
        assert group.ask("packets") == [f"{sent} {sent} 0 0"] * 2
        group.reduce(float_tensors(rng, 2, 1000))  # exponents are packets of their own
        sent += 2 * sum(1 for _ in packets(1000))
        assert group.ask("packets") == [f"{sent} {sent} 0 0"] * 2


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quantizer, under sanitizers."""
    program = tmp_path_factory.mktemp("quantizer") / "vectors"
    source = Path(simulator.__file__).parent / "src"
    sources = [CPP / "quantize_vectors.cc", source / "quantize.cc"]
    run(
        [SANITIZING, *STRICT, *SANITIZERS["address"], "-I", source, *sources, "-o", program],
        limit=None,
    )
    return program


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 256, 1000])
def test_quantizer_is_defined_for_every_float(
    vectors: Path, rng: np.random.Generator, workers: int
) -> None:
    small = [0, -0.0, 1e-45, 1.1754944e-38, 1e-30, 2**-98, 2**-97, 0.5, 0.99999994, 1, -1]
    large = [16777215, 8.5e37, 1.7014118e38, 3.4028235e38, -3.4028235e38, np.inf, -np.inf, np.nan]
    special = np.array([*small, *large], np.float32)
    bits = rng.integers(0, 2**32, (workers, 64), dtype=np.uint32)
    tensors = np.concatenate(
        [
            bits.view(np.float32),
            np.tile(special.repeat(8), (workers, 1)),
            np.full((workers, 8), 0.99999994, np.float32),
            rng.standard_normal((workers, 64)).astype(np.float32),
        ],
        axis=1,
    )
    numel = tensors.shape[1]
    stdout = run([vectors, str(workers), "8"], stdin=tensors.tobytes(), limit=None)
    expected = fixed_point_sum(list(tensors), packets(numel, threads=1, packet_numel=8))
    assert stdout == expected.tobytes()


def wait_failed(group: Job, ranks: list[int]) -> None:
    """The last job FAILED, none after a FAILED one FINISHED, and none ever will."""
    for rank in ranks:
        group[rank].tell("wait")
    for rank in ranks:
        assert re.fullmatch(r"(FINISHED\S* )*FAILED( FAILED)*", group[rank].answer())
    for rank in ranks:
        assert group[rank].ask("submit int32 5 1") == "submitted"
        assert group[rank].ask("wait") == "FAILED"


def submit(group: Job, ranks: list[int], numel: int = MIB) -> None:
    """Begin three jobs, by default of several times what a worker sends ahead of the others.

    The first of them has begun for all as soon as one worker sends: none is so large that others,
    which fill theirs later, come after the limit.
    """
    for rank in ranks:
        for _ in range(3):
            group[rank].ask(f"submit float32 {numel} 1")


def test_a_stopped_worker_fails_the_others_at_the_limit(driver: Path, tmp_path: Path) -> None:
    with started(driver, tmp_path, 3, limit_ms=2000) as group:
        submit(group, [1])
        group[1].process.send_signal(signal.SIGSTOP)
        submit(group, [0, 2])
        wait_failed(group, [0, 2])
        assert re.search(r"job 0 waited 2000 ms for rank 1", group[0].errors)
        group[1].process.send_signal(signal.SIGCONT)
        wait_failed(group, [1])


def test_a_silent_aggregator_fails_the_others_a_little_after_the_limit(
    driver: Path, tmp_path: Path
) -> None:
    with started(driver, tmp_path, 2, limit_ms=2000) as group:
        group[0].process.send_signal(signal.SIGSTOP)
        submit(group, [1])
        wait_failed(group, [1])


@pytest.mark.parametrize("stopped", [0, 2])
def test_others_fail_once_a_worker_has_stopped(driver: Path, tmp_path: Path, stopped: int) -> None:
    with started(driver, tmp_path, 3) as group:
        group.check_sum(100000, 1)
        float(group[stopped].ask("stop"))  # at once, and not at the limit
        others = [rank for rank in range(3) if rank != stopped]
        submit(group, others, numel=10)
        wait_failed(group, others)
        assert f"rank {stopped} has stopped" in group[1].errors


@pytest.mark.parametrize("stopped", [0, 1])
def test_stop_with_outstanding_jobs(driver: Path, tmp_path: Path, stopped: int) -> None:
    with started(driver, tmp_path, 2) as group:
        submit(group, [stopped])
        group[stopped].tell("stop")
        float(group[stopped].answer())  # at once, and not at the limit
        assert group[stopped].ask("wait") == "FAILED FAILED FAILED"
        submit(group, [1 - stopped])
        wait_failed(group, [1 - stopped])


@pytest.mark.parametrize(
    ("commands", "difference"),
    [
        (("submit int32 10 1", "submit int32 11 1"), "10 INT32 at rank 0 and 11 INT32 at rank 1"),
        (("submit int32 0 1", "submit int32 11 1"), "0 INT32 at rank 0 and 11 INT32 at rank 1"),
        (("submit float32 9 1", "submit int32 9 1"), "9 FLOAT32 at rank 0 and 9 INT32 at rank 1"),
    ],
)
def test_different_jobs_fail(
    driver: Path, tmp_path: Path, commands: tuple[str, str], difference: str
) -> None:
    with started(driver, tmp_path, 2) as group:
        group.ask(*commands)
        wait_failed(group, [0, 1])
        assert f"job 0 is {difference}" in group[0].errors


DISAGREEING = (
    ("num_workers", "2", "3"),
    ("num_worker_threads", "4", "2"),
    ("packet_numel", "256", "64"),
    ("max_outstanding_packets", "256", "128"),
    ("prepostprocessor", "cpu_exponent_quantizer", "bypass"),
    ("instant_job_completion", "false", "true"),
)


def test_a_config_that_disagrees_is_refused(driver: Path, tmp_path: Path) -> None:
    """Jobs side by side, as each waits for a limit."""
    with contextlib.ExitStack() as stack:
        groups = []
        for key, old, new in DISAGREEING:
            group = stack.enter_context(job(driver, tmp_path / key, 2, limit_ms=1000))
            groups.append(group)
            refused(group, key, old, new)
            group[0].ask("submit int32 1 1")
            group[0].tell("wait")
        assert [group[0].answer() for group in groups] == ["FAILED"] * len(groups)


def refused(group: Job, key: str, old: str, new: str) -> None:
    """Rank 1, which has another value than rank 0."""
    config = group[1].directory / "switchml.cfg"
    text = config.read_text()
    assert f"\n{key} = {old}\n" in text
    config.write_text(text.replace(f"\n{key} = {old}\n", f"\n{key} = {new}\n"))
    assert [group[0].ask("start"), group[1].ask("start")] == ["true", "false"]
    new, old = (new, old) if new.isdigit() or key == "prepostprocessor" else ("1", "0")
    assert f"{key} is {new} here and {old} at rank 0" in group[1].errors
    assert group[1].errors.count("\n") == 1
    assert group[1].ask("state") == "4"
    submit(group, [1], numel=1)
    wait_failed(group, [1])


def test_somebody_else_there(driver: Path, tmp_path: Path) -> None:
    with job(driver, tmp_path, 2, limit_ms=300) as group, socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", group.port))
        other.listen()
        assert group.ask("start") == ["false", "false"]
        assert "cannot listen" in group[0].errors
        assert "says nothing" in group[1].errors


def test_states_and_misuse_never_abort(driver: Path, tmp_path: Path) -> None:
    with job(driver, tmp_path, 1) as group:
        worker = group[0]
        assert worker.ask("state") == "0"
        assert worker.ask("misuse") == "FAILED"
        worker.ask("stop")
        assert [worker.ask("start"), worker.ask("start")] == ["true", "false"]
        assert worker.ask("state") == "2"
        assert worker.ask("misuse") == "FAILED"
        worker.ask("stop")
        worker.ask("stop")
        assert worker.ask("state") == "4"
        worker.ask("submit int32 1 1")
        assert worker.ask("wait") == "FAILED"
        assert worker.quit() == 0


@pytest.mark.parametrize("broken", [False, True])
def test_a_context_that_has_stopped_is_started_again(
    driver: Path, tmp_path: Path, *, broken: bool
) -> None:
    """Also where jobs were under way; nothing of a session is left in the next one."""
    with job(driver, tmp_path, 3) as group:
        for session in range(3):
            group.start()
            assert group.ask("state") == ["2"] * 3
            group.check_sum(100000, session + 1)
            if broken:
                submit(group, [1, 2])
            for worker in group.workers:
                float(worker.ask("stop"))
            assert group.ask("state") == ["4"] * 3
            if broken:
                assert [group[r].ask("wait").split() for r in (1, 2)] == [["FAILED"] * 3] * 2
        assert [worker.quit() for worker in group.workers] == [0, 0, 0]


def test_a_start_that_failed_is_tried_again(driver: Path, tmp_path: Path) -> None:
    with job(driver, tmp_path, 2, limit_ms=300) as group:
        assert group[1].ask("start") == "false"
        assert f"no connection to 127.0.0.1:{group.port}" in group[1].errors
        group.start()
        group.check_sum(3, 1)


def test_the_destructor_stops(driver: Path, tmp_path: Path) -> None:
    with started(driver, tmp_path, 2) as group:
        submit(group, [1], numel=10)
        assert [group[1].quit(), group[0].quit()] == [0, 0]


def test_a_child_does_not_hide_the_death_of_its_parent(driver: Path, tmp_path: Path) -> None:
    with started(driver, tmp_path, 2) as group:
        child = int(group[1].ask("orphan"))
        try:
            group[1].process.kill()
            submit(group, [0], numel=10)
            wait_failed(group, [0])
        finally:
            os.kill(child, signal.SIGKILL)


def test_no_config(driver: Path, tmp_path: Path) -> None:
    with contextlib.closing(Worker(driver, tmp_path / "none", None)) as worker:
        assert worker.ask("start") == "false"
        assert "cannot read /etc/switchml.cfg, switchml.cfg, switchml-" in worker.errors
        assert worker.ask("start-from elsewhere.cfg") == "false"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("colour = blue", "exception .*general.colour.*"),
        ("rank = many", "exception .*general.rank.*"),
        ("rank = 3", "false"),
        ("backend = dpdk", "true"),
        ("backend = carrier-pigeon", "false"),
    ],
)
def test_config_is_checked(driver: Path, tmp_path: Path, line: str, message: str) -> None:
    key = line.split(" = ", maxsplit=1)[0]
    kept = [text for text in compose_simulated().splitlines() if not text.startswith(f"{key} =")]
    config = "\n".join(kept).replace("[general]", f"[general]\n{line}")
    config = config.replace("port = 50099", f"port = {free_port()}")
    with contextlib.closing(Worker(driver, tmp_path / "worker", config)) as worker:
        assert re.fullmatch(message, worker.ask("start"))
        if message == "false":
            assert line.split(" = ", maxsplit=1)[1] in worker.errors


def test_sections_of_all_backends_are_read(driver: Path, tmp_path: Path) -> None:
    sections = (
        "[backend.dpdk]\nworker_port = 4000\nworker_ip = 10.0.0.1\ncores = 10-13\n"
        "extra_eal_options = -w 0000:81:00.0\nport_id = 0\npool_size = 131072\n"
        "pool_cache_size = 512\nburst_rx = 64\nburst_tx = 64\nbulk_drain_tx_us = 10\n"
        "[backend.rdma]\nmsg_numel = 1024\ndevice_name = mlx5_0\ndevice_port_id = 1\n"
        "gid_index = 3\n"
    )
    config = compose_simulated(controller_port=free_port()) + sections
    with contextlib.closing(Worker(driver, tmp_path / "worker", config)) as worker:
        assert worker.ask("start-from switchml.cfg") == "true"


def test_silent_connections_are_dropped(driver: Path, tmp_path: Path) -> None:
    with job(driver, tmp_path, 2, limit_ms=500) as group:
        assert group[0].ask("start") == "true"
        with socket.create_connection(("127.0.0.1", group.port)) as silent:
            silent.settimeout(ANSWER_S)
            assert silent.recv(1) == b""


def test_two_hundred_workers_join_at_once(driver: Path, tmp_path: Path) -> None:
    """All are connected before the first says who it is."""
    workers = 200
    with job(driver, tmp_path, 1, values={"num_workers": workers}) as group:
        assert group[0].ask("start") == "true"
        with contextlib.ExitStack() as stack:
            others = [
                stack.enter_context(socket.create_connection(("127.0.0.1", group.port), ANSWER_S))
                for _ in range(1, workers)
            ]
            for rank, other in enumerate(others, start=1):
                other.sendall(hello(rank, workers=workers, limit_ms=100_000))
            welcomes = [other.recv(HEADER.size) for other in others]
        assert [HEADER.unpack(one)[0] for one in welcomes] == [WELCOME] * (workers - 1)


def test_sanitizers_have_nothing_to_report(
    sanitized: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    """A report ends the process."""
    with started(sanitized, tmp_path / "sums", 3) as group:
        tensors = float_tensors(rng, 3, 100_001)
        expected = fixed_point_sum(tensors, packets(100_001))
        assert_same(group.reduce(tensors), expected)
        assert_same(group.reduce(tensors, "inplace"), expected)
        assert group.ask("storm 4 25 300") == ["0 wrong"] * 3
        assert group.ask("fork") == ["exit 7"] * 3
        assert_same(group.reduce(tensors), expected)
        submit(group, [0, 2], numel=100_000)
        float(group[2].ask("stop"))  # at once, and not at the limit
        wait_failed(group, [0])
        assert [worker.quit() for worker in group.workers] == [0] * 3
        assert all("Sanitizer" not in worker.errors for worker in group.workers)

    with started(sanitized, tmp_path / "killed", 3) as group:
        submit(group, [0, 1, 2], numel=MIB // 4)
        group[1].process.kill()
        wait_failed(group, [0, 2])
        assert [group[2].quit(), group[0].quit()] == [0, 0]
        assert all("Sanitizer" not in group[rank].errors for rank in (0, 2))


def test_install_writes_a_home(simulator_home: Home) -> None:
    prefix = simulator_home.prefix
    names = {os.path.relpath(path, prefix) for path in simulator_home.installed}
    assert {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()} == names
    assert names >= {"include/switchml/context.h", "lib/libswitchml-client.a", "switchml.cfg"}
    assert (prefix / "switchml.cfg").read_text() == compose_simulated()


def test_a_failed_build_leaves_the_prefix_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXXFLAGS", "-fno-such-flag")
    with pytest.raises(ToolError, match="return code"):
        install(tmp_path / "prefix")
    assert not (tmp_path / "prefix").exists()


def test_install_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(path: str) -> str:
        monkeypatch.setenv("PATH", path)
        with pytest.raises(ToolError) as caught:
            install(tmp_path / "prefix")
        return str(caught.value)

    monkeypatch.delenv("CXX", raising=False)
    (tmp_path / "cmake").symlink_to(shutil.which("cmake") or "")
    assert "conda: cmake" in attempt("/nowhere")
    assert "Debian: g++" in attempt(str(tmp_path))
    assert not (tmp_path / "prefix").exists()


def test_headers_need_neither_glog_nor_macros(simulator_home: Home, tmp_path: Path) -> None:
    include = simulator_home.prefix / "include"
    source = tmp_path / "size.cc"
    source.write_text(
        "#include <switchml/context.h>\n#include <cstdio>\n"
        "#ifdef LOG\n#error glog\n#endif\n"
        'int main() { std::printf("%zu", sizeof(switchml::Context)); }\n'
    )
    sizes = set()
    for macros in ([], ["-DDPDK", "-DRDMA", "-DDUMMY", "-DTIMEOUTS", "-DDEBUG", "-DNDEBUG"]):
        program = tmp_path / f"size{len(macros)}"
        run(["g++", *STRICT, *macros, "-I", include, source, "-o", program], limit=None)
        sizes.add(subprocess.run([program], capture_output=True, check=True).stdout)
    assert len(sizes) == 1
