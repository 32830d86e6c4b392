"""Memory as the kernel's files tell it, of machines that the tests write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from patchgen.system import machine

MIB = 1 << 20
GIB = 1 << 30
MOUNT = "30 23 0:26 {root} /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
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


def group(directory: str, limit: object, used: int, cache: int = 0) -> dict[str, object]:
    return {
        f"{directory}memory.max": limit,
        f"{directory}memory.current": used,
        f"{directory}memory.stat": f"anon 77\nactive_file 0\ninactive_file {cache}\nfile 5\n",
    }


def test_what_the_kernel_says_counts_where_nothing_limits_it(tmp_path: Path) -> None:
    assert machine.memory(site(tmp_path / "a", "0::/\n", MOUNT.format(root="/"), {})) == 8 * GIB
    assert machine.memory(site(tmp_path / "b", "", "", {})) == 8 * GIB
    files = group("", "max", 2 * GIB)
    assert machine.memory(site(tmp_path / "c", "0::/\n", MOUNT.format(root="/"), files)) == 8 * GIB


def test_files_that_are_cached_are_not_used(tmp_path: Path) -> None:
    files = group("", 4 * GIB, 3 * GIB, 2 * GIB)
    where = "4:cpu:/x\n0::/\n", MOUNT.format(root="/")
    assert machine.memory(site(tmp_path, *where, files)) == 3 * GIB


@pytest.mark.parametrize("limited", ["", "pod/", "pod/box/"])
def test_a_limit_of_a_group_above_counts(tmp_path: Path, limited: str) -> None:
    files: dict[str, object] = {}
    for directory in ("", "pod/", "pod/box/"):
        mine = directory == limited
        files |= group(directory, 3 * GIB if mine else "max", 1 * GIB if mine else 512 * MIB)
    where = "0::/pod/box\n", MOUNT.format(root="/")
    assert machine.memory(site(tmp_path, *where, files)) == 2 * GIB


def test_the_narrowest_group_counts(tmp_path: Path) -> None:
    files = {**group("", 4 * GIB, 3 * GIB), **group("pod/", 2 * GIB, 512 * MIB)}
    where = "0::/pod\n", MOUNT.format(root="/")
    assert machine.memory(site(tmp_path, *where, files)) == 1 * GIB


def test_where_the_kernel_begins_to_slow_a_group_down(tmp_path: Path) -> None:
    files = {**group("", "max", 1 * GIB), "memory.high": 2 * GIB}
    assert machine.memory(site(tmp_path, "0::/\n", MOUNT.format(root="/"), files)) == 1 * GIB


@pytest.mark.parametrize(
    ("cgroup", "top"), [("0::/docker/abc\n", "/docker/abc"), ("0::/../elsewhere\n", "/")]
)
def test_a_container_that_sees_only_its_own_group(tmp_path: Path, cgroup: str, top: str) -> None:
    files = group("", 2 * GIB, 1 * GIB)
    assert machine.memory(site(tmp_path, cgroup, MOUNT.format(root=top), files)) == 1 * GIB


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    files = group("", 1 * GIB, 2 * GIB)
    assert machine.memory(site(tmp_path, "0::/\n", MOUNT.format(root="/"), files)) == 0
