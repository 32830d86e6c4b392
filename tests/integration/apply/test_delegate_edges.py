"""What others can do to a rank: other users, threads, children, and a stderr that nobody reads."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import messages
from support.configs import with_values
from support.delegate import BUILDS, TERMS, run, sanitized
from support.unprivileged import NOBODY, identity

from patchgen.system.ports import free_port

GLOO = f"{messages.STAYS}: "
REQUIRE = {"SWITCHML_REQUIRE": "1"}
FAKE = {"SWITCHML_ALLOW_FAKE_SUMS": "1"}
"""A rank sums alone."""


@pytest.fixture(scope="session", params=["address"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sanitized(tmp_path_factory, request.param)


def fifo(path: Path) -> None:
    os.mkfifo(path, 0o644)


def directory(path: Path) -> None:
    path.mkdir(0o755)


def device(path: Path) -> None:
    os.mknod(path, 0o644 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero, which has no end


def large(path: Path) -> None:
    path.write_text("#" * (1 << 20) + "\n")
    path.chmod(0o644)


def instead(make: Callable[[Path], None], owner: int) -> Callable[[Path], None]:
    """Replace a rank's configuration."""

    def prepared(rank: Path) -> None:
        path = rank / "switchml.cfg"
        path.unlink()
        make(path)
        os.chown(path, owner, -1)

    return prepared


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("make", [fifo, directory, device, large])
@pytest.mark.parametrize("owner", [os.geteuid(), NOBODY])
def test_a_configuration_that_is_no_file(
    program: Path, make: Callable[[Path], None], owner: int, *, named: bool, tmp_path: Path
) -> None:
    """No rank waits for what another user, or its own, has put in the place of one."""
    if os.geteuid() != 0 and (owner == NOBODY or make is device):
        pytest.skip("needs root: it makes files of other users, and a device")
    paths = {rank: str(tmp_path / str(rank) / "switchml.cfg") for rank in range(2)}
    env = {rank: {"SWITCHML_CONFIG": path} for rank, path in paths.items()} if named else {}
    output = run(program, "refused", 2, tmp_path, env=env, prepared=instead(make, owner))
    if owner == NOBODY and owner != os.geteuid() and not named:
        why = f"belongs to user {NOBODY}"
    else:
        why = "larger than 1048576 bytes" if make is large else "not a regular file"
    for rank, line in enumerate(output):
        assert f"{messages.WARNING.format(rank)}" in line
        assert f"({paths[rank]}: " in line
        assert why in line


def test_a_configuration_that_cannot_be_opened(program: Path, tmp_path: Path) -> None:
    def prepared(rank: Path) -> None:
        path = rank / "switchml.cfg"
        path.unlink()
        os.mknod(path, 0o644 | stat.S_IFSOCK)

    output = run(program, "refused", 2, tmp_path, prepared=prepared)
    assert f"{GLOO}ranks 0-1: {messages.NO_CONFIG}\n" in output[0]
    assert f"{tmp_path}/0/switchml.cfg (No such device or address), " in output[0]


HOLD = Path(__file__).parents[2] / "payload" / "hold_names.py"


@contextlib.contextmanager
def held_by_another_user(names: list[str]) -> Iterator[None]:
    command = ["/usr/bin/python3", "-c", HOLD.read_text(), *names]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", **identity()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.communicate()


AUTO = """\
[general]
packet_numel = 256
num_worker_threads = 1
backend = dpdk
controller_ip = 127.0.0.1
controller_port = {}
[backend.dpdk]
cores = auto
worker_ip = interface:lo
"""


@pytest.mark.parametrize("held", ["cores", "ancestors"])
def test_names_that_another_user_holds(program: Path, held: str, tmp_path: Path) -> None:
    """Neither takes a core, nor passes for a rank above this one, which would be silent."""
    if os.geteuid() != 0:
        pytest.skip("needs root: another user holds the names")
    cores, port = os.sched_getaffinity(0), free_port()
    if len(cores) < 2:
        pytest.skip("needs two processors")
    names = [f"switchml/core/{core}/{port}/127.0.0.1" for core in cores]
    if held == "ancestors":
        space = os.stat("/proc/self/ns/pid").st_ino
        names = ["switchml/delegating", f"switchml/delegating/{space}/{os.getpid()}"]

    def prepared(rank: Path) -> None:
        (rank / "switchml.cfg").write_text(AUTO.format(port))

    with held_by_another_user(names):
        output = run(program, "reported", 2, tmp_path, env={-1: REQUIRE}, prepared=prepared)
    assert messages.DELEGATES in output[0]


def test_a_worker_that_outlives_the_group(program: Path, tmp_path: Path) -> None:
    """It does not pass for the group that delegated when it was forked."""
    port = free_port()

    def prepared(rank: Path) -> None:
        (rank / "again").mkdir()
        text = (rank / "switchml.cfg").read_text()
        values = {"controller_port": port, **TERMS}
        (rank / "again" / "switchml.cfg").write_text(with_values(text, values))

    output = run(program, "outlasted", 2, tmp_path, env={-1: REQUIRE}, prepared=prepared)
    assert output[0].count(messages.DELEGATES) == 2


@pytest.mark.parametrize("env", [{}, REQUIRE])
def test_groups_of_two_threads_that_cross(
    program: Path, env: dict[str, str], tmp_path: Path
) -> None:
    """No group delegates, which all ranks say, and raise if they must."""
    output = run(program, "crossed", 2, tmp_path, env={-1: env})
    for rank in range(2):
        assert f"{GLOO}rank {rank}: {messages.OTHER_IS_MADE}\n" in output[0]


@pytest.mark.parametrize("program", BUILDS, indirect=True)
def test_two_threads_make_groups_while_the_context_starts_anew(
    program: Path, tmp_path: Path
) -> None:
    env = {-1: {"FAULT": "slow-start", "FAULT_MS": "30"}}
    run(program, "restarted", 2, tmp_path, env=env)


def test_ranks_that_cannot_be_connected(program: Path, tmp_path: Path) -> None:
    """No rank takes so long to find out that another one misses its answer."""
    env = {-1: {"SWITCHML_FAILOVER": "1", "UNCONNECTED": "1"}, 1: {"STORE_LAG_MS": "200"}}
    output = run(program, "refused", 2, tmp_path, env=env, timeout_ms=12_000)
    assert f"{GLOO}rank 1: the ranks cannot be connected: rank 0 is gone" in output[0]
    assert "; rank 0: the ranks cannot be connected: rank 1 is gone" in output[0]


@pytest.mark.parametrize("program", BUILDS, indirect=True)
@pytest.mark.parametrize("env", [{}, {"AGAIN": "1"}])
def test_an_exit_while_the_context_starts(
    program: Path, env: dict[str, str], tmp_path: Path
) -> None:
    """The start ends, and the context stops, before static objects are destroyed."""
    faults = {"FAULT": "slow-end", "FAULT_MS": "400"}
    run(program, "starting", 1, tmp_path, env={-1: {**env, **faults, **FAKE}})


@pytest.mark.parametrize("program", BUILDS, indirect=True)
@pytest.mark.parametrize("env", [{}, {"ABORTS": "1"}])
def test_an_exit_while_a_thread_ends_the_group(
    program: Path, env: dict[str, str], tmp_path: Path
) -> None:
    """The thread does not come back while the context stops."""
    faults = {"FAULT": "slow-stop", "FAULT_MS": "1500", "SWITCHML_FAILOVER": "1"}
    # Nobody joins the threads of a group that has not ended.
    sanitizer = {"TSAN_OPTIONS": "halt_on_error=1 report_thread_leaks=0"}
    run(program, "leaving", 2, tmp_path, env={-1: {**env, **faults, **sanitizer}})


def test_a_sum_of_a_static_destructor(program: Path, tmp_path: Path) -> None:
    run(program, "buried", 2, tmp_path)


def test_a_stream_that_another_thread_keeps(program: Path, tmp_path: Path) -> None:
    run(program, "locked", 2, tmp_path)


def test_a_loader_that_does_not_know_its_own_place(program: Path, tmp_path: Path) -> None:
    env = {0: {"NO_LIBRARY": "libgone.so.1", "NO_ADDRESS": "1"}}
    output = run(program, "refused", 2, tmp_path, env=env)
    assert f"{GLOO}rank 0: libgone.so.1" in output[0]


@pytest.mark.parametrize("program", BUILDS, indirect=True)
def test_a_group_that_ends_while_it_is_made(program: Path, tmp_path: Path) -> None:
    run(program, "departed", 2, tmp_path)


@pytest.mark.parametrize(
    "env", [{"SWITCHML_TIMEOUT_MS": "1000"}, {"SWITCHML_TIMEOUT_MS": "60000", "ABORTS": "1"}]
)
def test_stderr_that_nobody_reads(program: Path, env: dict[str, str], tmp_path: Path) -> None:
    run(program, "unread", 2, tmp_path, env={-1: env})


def test_stderr_that_nobody_reads_without_the_library(program: Path, tmp_path: Path) -> None:
    run(program, "unheard", 1, tmp_path, env={0: {"NO_LIBRARY": "libgone.so.1"}})
