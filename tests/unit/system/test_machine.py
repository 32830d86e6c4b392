"""Memory as the kernel's files tell it, of machines that the tests write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from patchgen.system import machine

MIB = 1 << 20
GIB = 1 << 30
NO_LIMIT = 9223372036854771712  # of version 1
V1 = "31 30 0:31 {root} /cg/memory rw,nosuid - cgroup cgroup rw,memory\n"
V2 = "30 23 0:26 {root} /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
OTHERS = (
    "23 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "32 30 0:32 / /cg/cpu rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
)


def site(
    root: Path, cgroup: str, mounts: str, files: Mapping[str, object], free: int = 8 * GIB
) -> str:
    texts = {
        "proc/meminfo": f"MemTotal: 99 kB\nMemAvailable:   {free // 1024} kB\nBuffers: 1 kB\n",
        "proc/self/cgroup": cgroup,
        "proc/self/mountinfo": OTHERS + mounts,
        **{f"cg/{name}": str(text) for name, text in files.items()},
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def stat(active: int, inactive: int = 0, total: str = "") -> str:
    return f"anon 77\n{total}active_file {active}\n{total}inactive_file {inactive}\nfile 5\n"


def v2(directory: str, limit: object, used: int, cache: int = 0) -> dict[str, object]:
    return {
        f"{directory}memory.max": limit,
        f"{directory}memory.current": used,
        f"{directory}memory.stat": stat(0, cache),
    }


def v1(directory: str, limit: int, used: int, cache: int = 0) -> dict[str, object]:
    return {
        f"memory/{directory}memory.limit_in_bytes": limit,
        f"memory/{directory}memory.usage_in_bytes": used,
        f"memory/{directory}memory.stat": stat(1, 1) + stat(cache, total="total_"),
    }


def test_what_the_kernel_says_counts_where_nothing_limits_it(tmp_path: Path) -> None:
    assert machine.memory(site(tmp_path / "a", "0::/\n", V2.format(root="/"), {})) == 8 * GIB
    assert machine.memory(site(tmp_path / "b", "", "", {})) == 8 * GIB
    files = v2("", "max", 2 * GIB)
    assert machine.memory(site(tmp_path / "c", "0::/\n", V2.format(root="/"), files)) == 8 * GIB
    files = v1("", NO_LIMIT, 2 * GIB)
    where = "3:memory:/\n", V1.format(root="/")
    assert machine.memory(site(tmp_path / "d", *where, files)) == 8 * GIB


def test_this_machine_has_some() -> None:
    assert machine.memory() > 0
    assert machine.jobs(0.001) >= 1


@pytest.mark.parametrize("make", [v1, v2])
def test_files_that_are_cached_are_not_used(tmp_path: Path, make: object) -> None:
    assert callable(make)
    files = make("", 4 * GIB, 3 * GIB, 2 * GIB)
    cgroup, mounts = ("0::/\n", V2) if make is v2 else ("4:cpu:/x\n3:memory:/\n0::/\n", V1)
    assert machine.memory(site(tmp_path, cgroup, mounts.format(root="/"), files)) == 3 * GIB


@pytest.mark.parametrize("limited", ["", "pod/", "pod/box/"])
@pytest.mark.parametrize("make", [v1, v2])
def test_a_limit_of_a_group_above_counts(tmp_path: Path, make: object, limited: str) -> None:
    assert callable(make)
    none: object = NO_LIMIT if make is v1 else "max"
    files: dict[str, object] = {}
    for directory in ("", "pod/", "pod/box/"):
        mine = directory == limited
        files |= make(directory, 3 * GIB if mine else none, 1 * GIB if mine else 512 * MIB)
    cgroup, mounts = ("0::/pod/box\n", V2) if make is v2 else ("3:memory:/pod/box\n", V1)
    assert machine.memory(site(tmp_path, cgroup, mounts.format(root="/"), files)) == 2 * GIB


def test_the_narrowest_group_counts(tmp_path: Path) -> None:
    files = {**v2("", 4 * GIB, 3 * GIB), **v2("pod/", 2 * GIB, 512 * MIB)}
    where = "0::/pod\n", V2.format(root="/")
    assert machine.memory(site(tmp_path, *where, files)) == 1 * GIB


def test_where_the_kernel_begins_to_slow_a_group_down(tmp_path: Path) -> None:
    files = {**v2("", "max", 1 * GIB), "memory.high": 2 * GIB}
    assert machine.memory(site(tmp_path, "0::/\n", V2.format(root="/"), files)) == 1 * GIB


@pytest.mark.parametrize(
    ("cgroup", "mounts", "make"),
    [
        ("3:memory:/docker/abc\n", V1.format(root="/docker/abc"), v1),
        ("0::/docker/abc\n", V2.format(root="/docker/abc"), v2),
        ("0::/../elsewhere\n", V2.format(root="/"), v2),
    ],
)
def test_a_container_that_sees_only_its_own_group(
    tmp_path: Path, cgroup: str, mounts: str, make: object
) -> None:
    assert callable(make)
    assert machine.memory(site(tmp_path, cgroup, mounts, make("", 2 * GIB, 1 * GIB))) == 1 * GIB


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    files = v2("", 1 * GIB, 2 * GIB)
    assert machine.memory(site(tmp_path, "0::/\n", V2.format(root="/"), files)) == 0
