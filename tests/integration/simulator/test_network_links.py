"""The links that `make bench-network` measures on, in real namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from network import links
from support import network_links

pytestmark = pytest.mark.integration

OWN = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
TESTS = Path(__file__).parents[2]


def is_mounted_root() -> bool:
    """Not so in a plain chroot, whose mounts cannot be made private."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == "/" for line in mounts)


def test_each_rank_is_behind_a_link_of_its_own() -> None:
    if not is_mounted_root():
        pytest.skip("the root is no mount: make it one by `mount --bind DIR DIR` before chroot DIR")
    private = OWN if os.geteuid() == 0 else ["--user", "--map-root-user", *OWN]
    ended = subprocess.run(
        ["unshare", *private, sys.executable, str(network_links.__file__)],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS / 'benchmarks'}"},
        timeout=300,
    )
    found = json.loads(ended.stdout)
    rate = 100 * 10**6 // 8
    hub, first, second = found["shaped"]
    assert hub == [f"port0 {rate}", f"port1 {rate}"]
    assert first == second == [f"{links.INTERFACE} {rate}"]
    assert found["to the hub"] == found["to a rank"] == network_links.BYTES
    assert found["left"] == []


def test_it_is_not_started_among_the_machines_own_links() -> None:
    with pytest.raises(OSError, match="not the first process in namespaces of its own"):
        links.own()
