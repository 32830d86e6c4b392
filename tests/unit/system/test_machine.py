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


def site(root: Path, cgroup: str, mounts: str, files: Mapping[str, object]) -> str:
    """A machine with 8 GiB free."""
    texts = {
        "proc/meminfo": f"MemTotal: 99 kB\nMemAvailable:   {8 << 20} kB\nBuffers: 1 kB\n",
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


CASES: dict[str, tuple[str, str, dict[str, object], int]] = {
    "no group": ("0::/\n", "/", {}, 8 * GIB),
    "no limit": ("0::/\n", "/", group("", "max", 2 * GIB), 8 * GIB),
    "cached files": ("4:cpu:/x\n0::/\n", "/", group("", 4 * GIB, 3 * GIB, 2 * GIB), 3 * GIB),
    "the narrowest": (
        "0::/pod\n",
        "/",
        {**group("", 4 * GIB, 3 * GIB), **group("pod/", 2 * GIB, 512 * MIB)},
        1 * GIB,
    ),
    "slowed down": (
        "0::/\n", "/", {**group("", "max", 1 * GIB), "memory.high": 2 * GIB}, 1 * GIB,
    ),
    "container": ("0::/docker/abc\n", "/docker/abc", group("", 2 * GIB, 1 * GIB), 1 * GIB),
    "container elsewhere": ("0::/../elsewhere\n", "/", group("", 2 * GIB, 1 * GIB), 1 * GIB),
    "over the limit": ("0::/\n", "/", group("", 1 * GIB, 2 * GIB), 0),
}  # fmt: skip


@pytest.mark.parametrize(("cgroup", "top", "files", "free"), CASES.values(), ids=CASES)
def test_what_is_left(
    tmp_path: Path, cgroup: str, top: str, files: dict[str, object], free: int
) -> None:
    assert machine.memory(site(tmp_path, cgroup, MOUNT.format(root=top), files)) == free


def test_a_kernel_without_groups(tmp_path: Path) -> None:
    assert machine.memory(site(tmp_path, "", "", {})) == 8 * GIB


@pytest.mark.parametrize("limited", ["", "pod/", "pod/box/"])
def test_a_limit_of_a_group_above_counts(tmp_path: Path, limited: str) -> None:
    files: dict[str, object] = {}
    for directory in ("", "pod/", "pod/box/"):
        mine = directory == limited
        files |= group(directory, 3 * GIB if mine else "max", 1 * GIB if mine else 512 * MIB)
    where = "0::/pod/box\n", MOUNT.format(root="/")
    assert machine.memory(site(tmp_path, *where, files)) == 2 * GIB


@pytest.mark.parametrize("text", [None, "MemTotal: 99 kB\n"])
def test_a_kernel_that_tells_no_available_memory(tmp_path: Path, text: str | None) -> None:
    root = site(tmp_path, "", "", {})
    meminfo = tmp_path / "proc" / "meminfo"
    meminfo.unlink() if text is None else meminfo.write_text(text)
    assert 0 < machine.memory(root) < 1 << 50
