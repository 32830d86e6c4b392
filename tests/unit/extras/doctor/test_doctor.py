"""The doctor's looks at a host, and its verdict on what ranks have said."""

from __future__ import annotations

import json
import re
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.waiting import captured

from patchgen.core.patch import render
from patchgen.extras.doctor.payload.switchml_doctor import (
    address,
    checks,
    config,
    machine,
    measure,
    software,
    table,
)
from patchgen.extras.doctor.payload.switchml_doctor import rank as of_rank
from patchgen.extras.doctor.payload.switchml_doctor.meeting import find_problem

DOCS = Path(__file__).parents[4] / "docs"
DPDK = {"general.backend": "dpdk", "backend.dpdk.extra_eal_options": "--no-huge"}
SOFTWARE = {
    "torch": "2.9.0", "switchml": "torch_switchml", "simulator": "False", "flags": "DPDK",
    "sources": "1", "fixes": "heap", "problem": "", "autoload": "1",
}  # fmt: skip


AGREEMENT = render.text("delegate/src/join/agreement.hpp")
FIRST = re.findall('kFirstStep = ("[^"]+")', render.text("delegate/include/record.hpp"))[0]
STEPS = re.findall(
    '"([^"]*)"',
    AGREEMENT.partition("kStepNames{")[2].partition("}")[0].replace("kFirstStep", FIRST),
)
"""Names of the delegate's one table."""


def write(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


def looked(root: Path, files: dict[str, str], **values: str) -> list[tuple[str, str]]:
    given = {**DPDK, **{key.replace("__", "."): value for key, value in values.items()}}
    return [*machine.look(given, simulator=False, root=write(root, files))]


KERNEL = "sys/kernel/mm/hugepages/hugepages-{}kB/free_hugepages"
BIG, SMALL = 1 << 20, 2048  # kB
V2 = {"proc/self/cgroup": "0::/job\n"}
V1 = {"proc/self/cgroup": "4:memory:/x\n3:cpu,hugetlb:/job/part\n"}
POOL = {"backend__dpdk__pool_size": "256", "general__num_worker_threads": "1"}  # less than a page


def mount(size: str = "2M", point: str = "/dev/hugepages", rights: str = "rw") -> str:
    return f"hugetlbfs {point} hugetlbfs {rights},relatime,pagesize={size} 0 0\n"


def pages(free: dict[int, int], mounts: str) -> dict[str, str]:
    """Files of a host with mounts, whose directories are there."""
    points = [line.split()[1] for line in mounts.splitlines()]
    return {
        "proc/mounts": f"proc /proc proc rw 0 0\n{mounts}",
        "proc/meminfo": f"Hugepagesize:    {SMALL} kB\n",
        **{f"{point[1:]}/.keep": "" for point in points},
        **{KERNEL.format(size): f"{count}\n" for size, count in free.items()},
    }


@pytest.mark.parametrize(
    ("free", "mounts", "options", "found"),
    [
        ({SMALL: 512, BIG: 4}, mount() + mount("1024M", "/huge"), "--legacy-mem",
         ("ok", "huge pages free: 512 of 2048 kB, 4 of 1048576 kB")),
        ({SMALL: 512, BIG: 4}, mount(), "--legacy-mem", ("ok", "huge pages free: 512 of 2048 kB")),
        ({SMALL: 512}, "none /dev/hugepages hugetlbfs rw 0 0\n", "--legacy-mem",
         ("ok", "huge pages free: 512 of 2048 kB")),
        ({BIG: 4}, mount(), "--legacy-mem",
         ("bad", "no hugetlbfs is mounted for pages of 1048576 kB")),
        ({BIG: 4}, mount(), "-m 256", ("ok", "huge pages free: 4 of 1048576 kB")),
        ({SMALL: 512}, "", "--legacy-mem", ("bad", "no hugetlbfs is mounted for pages of 2048 kB")),
        ({SMALL: 512}, mount(), "--huge-dir=/huge --huge-unlink=never",
         ("bad", "no hugetlbfs is mounted for pages of 2048 kB")),
        ({SMALL: 512}, mount() + mount(point="/huge"), "--huge-dir /huge/ --legacy-mem",
         ("ok", "huge pages free: 512 of 2048 kB")),
        ({SMALL: 512}, mount(rights="ro"), "--legacy-mem",
         ("bad", "the hugetlbfs at /dev/hugepages cannot be written")),
        ({SMALL: 0}, mount(), "-m 256", ("bad", "no huge page is free")),
        ({SMALL: 1}, mount(), "-m 256",
         ("bad", "huge pages free: 1 of 2048 kB; 256 MiB are needed")),
        ({SMALL: 1}, mount(), "--socket-mem=1,2",
         ("bad", "huge pages free: 1 of 2048 kB; 3 MiB are needed")),
        ({SMALL: 1}, mount(), "", ("ok", "huge pages free: 1 of 2048 kB")),
    ],
)  # fmt: skip
def test_huge_pages(
    tmp_path: Path, free: dict[int, int], mounts: str, options: str, found: tuple[str, str]
) -> None:
    files = pages(free, mounts)
    assert looked(tmp_path, files, backend__dpdk__extra_eal_options=options, **POOL) == [found]
    assert looked(tmp_path, {}) == []  # not needed with --no-huge


def test_what_the_pools_of_all_ranks_need(tmp_path: Path) -> None:
    """Two of them for each thread, of pool_size packets."""
    given = {"backend.dpdk.pool_size": "1024", "general.num_worker_threads": "2"}
    root = write(tmp_path, pages({SMALL: 5}, mount()))
    (one,) = machine.look(given, simulator=False, root=root)
    (both,) = machine.look(given, simulator=False, ranks=2, root=root)
    (usual,) = machine.look({}, simulator=False, root=root)
    assert one == ("ok", "huge pages free: 5 of 2048 kB")
    assert both == ("bad", "huge pages free: 5 of 2048 kB; 19 MiB are needed")
    assert usual[1].endswith("; 4736 MiB are needed")


def test_a_kernel_without_huge_pages(tmp_path: Path) -> None:
    found = looked(tmp_path, {}, backend__dpdk__extra_eal_options="")
    assert found == [("bad", "this kernel has no huge pages")]


CGROUP2, CGROUP1 = "cg /sys/fs/cgroup cgroup2 rw 0 0\n", "cg /cg/huge cgroup rw,hugetlb 0 0\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({**V2, "sys/fs/cgroup/job/hugetlb.2MB.max": "0"}, 0),
        ({**V2, "sys/fs/cgroup/job/hugetlb.2MB.max": "max",
          "sys/fs/cgroup/hugetlb.2MB.max": "0"}, 0),
        ({**V2, "sys/fs/cgroup/job/hugetlb.2MB.rsvd.max": "4194304",
          "sys/fs/cgroup/job/hugetlb.2MB.rsvd.current": "2097152"}, 1),
        ({**V2, "sys/fs/cgroup/job/hugetlb.1GB.max": "0"}, None),
        ({**V2, "sys/fs/cgroup/other/hugetlb.2MB.max": "0"}, None),
        ({**V1, "cg/huge/job/hugetlb.2MB.limit_in_bytes": "0"}, 0),
        ({**V1, "cg/huge/hugetlb.2MB.limit_in_bytes": "9223372036854771712"}, None),
        ({"proc/self/cgroup": "4:memory:/x\n", "cg/huge/x/hugetlb.2MB.limit_in_bytes": "0"}, None),
    ],
)  # fmt: skip
def test_a_limit_of_the_control_group(
    tmp_path: Path, files: dict[str, str], found: int | None
) -> None:
    host = pages({SMALL: 512}, mount() + CGROUP2 + CGROUP1)
    values = {"backend__dpdk__extra_eal_options": "-m 256", **POOL}
    (seen,) = looked(tmp_path, {**host, **files}, **values)
    if found is None:
        assert seen == ("ok", "huge pages free: 512 of 2048 kB")
    else:
        assert seen[0] == "bad"
        assert seen[1].startswith(f"the control group leaves {found} of 2048 kB")


@pytest.mark.parametrize("node", ["1", "0", "-1", ""])
@pytest.mark.parametrize("by", ["card", "interface"])
def test_pages_that_are_all_on_another_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str, by: str
) -> None:
    monkeypatch.setattr(machine, "read_link", lambda _: (9000, True))
    own = "sys/devices/system/node/node{}/hugepages/hugepages-2048kB/free_hugepages"
    card, device = "sys/bus/pci/devices/0000:41:00.0", "sys/class/net/ens1/device"
    files = {own.format(0): "512", own.format(1): "0", f"{card}/x": ""}
    files[f"{card if by == 'card' else device}/numa_node"] = node
    options = "-m 256" + (" -a 41:00.0" if by == "card" else "")
    values = {
        "backend__dpdk__extra_eal_options": options,
        "backend__dpdk__worker_ip": "interface:ens1",
    }
    found = looked(tmp_path, {**pages({SMALL: 512}, mount()), **files}, **values, **POOL)
    expected = ("doubtful", "no huge page is free on node 1, where the card is")
    assert (expected in found) == (node == "1")


def test_a_mount_that_is_real(tmp_path: Path) -> None:
    """Read-only, in a namespace of its own; the size is what its own kernel writes."""
    point = tmp_path / "huge"
    write(tmp_path, {**pages({SMALL: 512}, ""), "huge/.keep": ""})
    (tmp_path / "proc/mounts").unlink()
    script = (
        f"mount -t hugetlbfs -o ro,pagesize=2M none {point} && "
        f"cat /proc/mounts >{tmp_path}/proc/mounts && mkdir -p {tmp_path}{tmp_path} && "
        f"ln -s {point} {tmp_path}{point} && exec {sys.executable} -c "
        "'import sys; from patchgen.extras.doctor.payload.switchml_doctor import pages; "
        'print(*pages.look_at_pages(["--legacy-mem"], 1, "", sys.argv[1]))\' '
        f"{tmp_path}"
    )
    done = captured(["unshare", "--mount", "sh", "-c", script])
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("needs root, to mount a hugetlbfs")
    assert f"the hugetlbfs at {point} cannot be written" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("limit", "capabilities", "fails"),
    [
        (64 << 10, "0", True),
        (64 << 10, "4000", False),
        (256 << 10, "0", False),
        (resource.RLIM_INFINITY, "0", False),
    ],
)
@pytest.mark.parametrize(("backend", "needed"), [("rdma", 256), ("dpdk", 254)])
def test_memory_that_cannot_be_locked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    capabilities: str,
    backend: str,
    needed: int,
    *,
    fails: bool,
) -> None:
    """A card that is accessed by ibverbs or VFIO needs it."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    driver = tmp_path / "sys/bus/pci/devices/0000:41:00.0/driver"
    driver.parent.mkdir(parents=True)
    driver.symlink_to("/sys/bus/pci/drivers/mlx5_core")
    files = {**pages({SMALL: 1, BIG: 0}, ""), "proc/self/status": f"CapEff:\t{capabilities}\n"}
    values = {
        "general__backend": backend,
        "backend__dpdk__extra_eal_options": "--no-huge -a 41:00.0",
        "backend__dpdk__pool_size": "55",
    }
    seen = looked(tmp_path, files, **values, general__num_worker_threads="1")
    expected = [("bad", f"64 kB of memory may be locked, {needed} are needed")]
    assert [one for one in seen if one[0] == "bad"] == (expected if fails else [])
    assert seen[0] == ("ok", "huge pages free: 1 of 2048 kB") or backend == "dpdk"


@pytest.mark.parametrize(
    ("link", "numel", "found"),
    [
        ((1500, True), "256", [("ok", "ens1: MTU 1500")]),
        ((1061, True), "256", [("bad", "the MTU of ens1 is 1061, packets need 1062")]),
        ((294, True), "64", [("ok", "ens1: MTU 294")]),
        ((1500, False), "256", [("bad", "ens1 has no link"), ("ok", "ens1: MTU 1500")]),
    ],
)
def test_a_link(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    link: tuple[int, bool],
    numel: str,
    found: list[tuple[str, str]],
) -> None:
    monkeypatch.setattr(machine, "read_link", lambda _: link)
    values = {"backend__dpdk__worker_ip": "interface:ens1", "general__packet_numel": numel}
    assert looked(tmp_path, {}, **values) == found


def test_elements_that_are_no_number(tmp_path: Path) -> None:
    """The delegate refuses them."""
    values = {"backend__dpdk__worker_ip": "interface:lo", "general__packet_numel": "many"}
    assert looked(tmp_path, {}, **values) == []


def test_clocks_of_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5})
    place = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
    files = {place.format(core): text for core, text in ((0, "performance"), (3, "powersave"))}
    found = ("doubtful", "cores 3 are not governed by performance")
    assert looked(tmp_path, files) == [found]


def test_an_interface_that_is_not_there(tmp_path: Path) -> None:
    values = {"backend__dpdk__worker_ip": "interface:ens7"}
    assert looked(tmp_path, {}, **values) == [("bad", "there is no interface ens7")]


def test_the_interface_of_an_address(tmp_path: Path) -> None:
    found = looked(tmp_path, {}, backend__dpdk__worker_ip="127.0.0.1")
    assert found[-1] == ("ok", f"lo: MTU {machine.read_link('lo')[0]}")


def test_cards(tmp_path: Path) -> None:
    options = {"backend__dpdk__extra_eal_options": "--no-huge -a 0000:41:00.0,mprq_en=1 -a 5e:00.1"}
    place = tmp_path / "sys/bus/pci/devices/0000:41:00.0"
    place.mkdir(parents=True)
    (place / "driver").symlink_to("/sys/bus/pci/drivers/mlx5_core")
    able = {"proc/self/status": "CapEff: 4000"}  # may lock memory
    assert looked(tmp_path, able, **options) == [
        ("ok", "card 0000:41:00.0: mlx5_core"),
        ("bad", "there is no card 0000:5e:00.1"),
    ]


def test_the_simulator_needs_nothing_of_the_host(tmp_path: Path) -> None:
    assert [*machine.look({}, simulator=True, root=str(tmp_path))] == []
    assert [*machine.look({"general.backend": "dummy"}, simulator=False)] == []


def test_the_values_of_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "own.cfg"
    path.write_text(
        "[general]\nrank = 3\nnum_workers=7 # all\nbackend = dpdk\n"
        "[backend.dpdk]\nworker_ip = ${NAME}\nextra_eal_options = --vdev 'a b'\n"
    )
    environ = {"SWITCHML_CONFIG": str(path), "NAME": "10.0.0.1"}
    values = config.read_values(environ)
    assert values["backend.dpdk.worker_ip"] == "10.0.0.1"
    assert config.eal_options(values) == ["--vdev", "a b"]
    rest = config.without_numbers(config.read_text(environ))
    assert "rank" not in rest
    assert "num_workers" not in rest
    assert "backend = dpdk" in rest
    # The delegate has to see a byte order mark, and refuses it.
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert config.read_values(environ) == values
    assert config.without_numbers(config.read_text(environ)) == f"\ufeff{rest}"
    for path in (tmp_path / "none", tmp_path):
        assert config.read_values({"SWITCHML_CONFIG": str(path)}) == {}
    assert socket.gethostname() in config._places({})[-1]


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        (None, ""),
        ("raise ImportError('built for torch 0')", "built for torch 0"),
        ("from torch_switchml import _C", "cannot import name '_C' from "),
        ("import ctypes; ctypes.CDLL('libgone.so')", "libgone.so: cannot open"),
    ],
    ids=["none", "other-torch", "other-python", "other-library"],
)
def test_a_plugin_that_cannot_be_imported(tmp_path: Path, plugin: str | None, problem: str) -> None:
    files = {"torch/__init__.py": "", "torch/distributed/__init__.py": ""}
    if plugin is not None:
        files["torch_switchml/__init__.py"] = plugin
    code = (
        f"import json; from {software.__name__} import find_library as it; print(json.dumps(it()))"
    )
    output = subprocess.check_output(
        [sys.executable, "-c", code], text=True, env={"PYTHONPATH": write(tmp_path, files)}
    )
    module, backend, found = json.loads(output)
    assert (module, backend) == (None, "gloo")
    assert found.startswith(problem) if problem else not found


def rank(number: int, host: str = "", **attempt: Any) -> dict[str, Any]:
    report = {
        "world_size": 2, "step": "", "objection": "", "failure": "", "filled_in": "",
        "capabilities": {"packet_numel": 1},
        "packets": {"sent": 9, "answers": 9, "wrong": 0, "timeouts": 0},
    }  # fmt: skip
    report.update(attempt.pop("report", {}))
    report["passed"] = STEPS[: STEPS.index(report["step"])]
    tried = {"ended": "", "output": [], "report": report, **attempt}
    return {
        "rank": number, "host": host or f"h{number}", "world": 2, "pid": 7, "machine": [],
        "software": SOFTWARE, "attempt": tried, "address": f"10.0.0.{number}",
    }  # fmt: skip


def failed(*ranks: dict[str, Any]) -> tuple[str, list[str], str]:
    """Check, hosts, and the words of the first host."""
    data = table.data(checks.judge([*ranks]))
    words = [
        one["checks"][data["check"]]["words"]
        for one in data["ranks"]
        if one["host"] in data["hosts"]
    ]
    return data["check"], data["hosts"], words[0]


def counts(sent: int, answers: int, wrong: int = 0) -> dict[str, int]:
    return {"sent": sent, "answers": answers, "wrong": wrong, "timeouts": 3}


PROBE = {"step": "probe", "objection": "it did not finish"}


def probed(packets: dict[str, int] | None) -> dict[str, Any]:
    return {**PROBE, "packets": packets}


BOTH = ["h0", "h1"]
OTHER = {"step": "capabilities", "reason": "rank 1: it has no mood"}
FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, list[str], str]]] = {
    "nothing sent": (
        probed(counts(0, 0)), probed(counts(9, 0)), ("packets", ["h0"], "no packet left the card"),
    ),
    "no answer": (
        probed(counts(9, 5)), probed(counts(9, 0)), ("answers", ["h1"], "sent 9, no answer"),
    ),
    "wrong answers": (
        probed(counts(9, 0)), probed(counts(9, 0, 2)), ("answers", BOTH, "sent 9, no answer"),
    ),
    "few answers": (
        probed(counts(9, 5)), probed(counts(9, 3)), ("answers", ["h1"], "sent 9, 3 answered"),
    ),
    "no counts": (probed(None), probed(None), ("answers", BOTH, "it did not finish")),
    "wrong sums": (
        {"step": "sums"}, {"step": "sums", "objection": "wrong"}, ("sums", ["h1"], "wrong"),
    ),
    "failed over": ({}, {"failover": {"reason": "why"}}, ("sums", ["h1"], "why")),
    "failed": ({}, {"failure": "why"}, ("sums", ["h1"], "why")),
    "another reason": (OTHER, OTHER, ("sums", BOTH, OTHER["reason"])),
}  # fmt: skip


@pytest.mark.parametrize(("first", "second", "expected"), FAULTS.values(), ids=FAULTS)
def test_the_check_and_the_hosts_at_fault(
    first: dict[str, Any], second: dict[str, Any], expected: tuple[str, list[str], str]
) -> None:
    assert failed(rank(0, report=first), rank(1, report=second)) == expected


def test_plugin_that_torch_does_not_load() -> None:
    one = {**rank(0), "software": {**SOFTWARE, "autoload": "0"}}
    found = checks.look_at_software(one, [one])
    assert (found.state, "have to import torch_switchml" in found.words) == ("doubtful", True)


def test_ranks_that_have_tried_alone() -> None:
    """A rank that is answered alone is not at fault, unless all are."""
    ranks = [rank(number, report={**PROBE, "packets": counts(9, 0)}) for number in (0, 1)]
    assert checks.is_silent(ranks)
    ranks[0]["alone"] = counts(9, 9)
    assert failed(*ranks)[:2] == ("answers", ["h1"])
    ranks[1]["alone"] = counts(9, 9)
    assert failed(*ranks)[:2] == ("answers", ["h0", "h1"])


def test_a_process_that_the_library_ends() -> None:
    """What it has said last is shown."""
    dead = rank(1, ended="was ended by SIGABRT", output=["one", "Cannot get hugepage information"])
    del dead["attempt"]["report"]
    others = rank(0, report={"step": "start", "objection": ""})
    expected = "the process was ended by SIGABRT: Cannot get hugepage information"
    assert failed(others, dead) == ("session", ["h1"], expected)


def test_a_rank_that_waits_for_one_that_is_refused() -> None:
    """It is not at fault, unless all have waited."""
    refused = {"step": "start", "objection": "no start"}
    waited = {**refused, "late": True}
    ranks = [rank(0, report=waited),
             rank(1, report=refused, output=["no room", "switchml: error: given up"])]  # fmt: skip
    assert failed(*ranks) == ("session", ["h1"], "no start: no room")
    assert failed(ranks[0], rank(1, report=waited))[:2] == ("session", ["h0", "h1"])
    started = rank(1, report={"step": "start", "objection": ""})
    assert failed(ranks[0], started)[:2] == ("session", ["h0"])


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"http_proxy": "p:1", "HTTPS_PROXY": "p:1", "no_proxy": ""}, "http_proxy"),
        ({"grpc_proxy": "p:1", "https_proxy": "p:1", "no_proxy": "10.0.0.9, x"}, "grpc_proxy"),
        ({"https_proxy": "p:1", "no_proxy": "localhost,10.0.0.7"}, ""),
        ({"https_proxy": "p:1", "no_proxy": "10.0.0.7", "no_grpc_proxy": "x"}, "https_proxy"),
        ({"HTTP_PROXY": "p:1"}, ""),
    ],
)
def test_a_proxy_before_the_controller(environ: dict[str, str], name: str) -> None:
    """gRPC reads names in small letters only."""
    assert config.find_proxy({"general.controller_ip": "10.0.0.7"}, environ) == name
    refused = {"step": "start", "objection": "no start"}
    found = failed(rank(0), {**rank(1, report=refused), "proxy": name})
    more = f"; asks the proxy of {name}: unset it, or use a fixed library" if name else ""
    assert found == ("session", ["h1"], refused["objection"] + more)


def test_sums_that_are_none() -> None:
    fake = {"decision": "WARNING: no sums"}
    verdict = checks.judge([rank(0, report=fake), rank(1, report=fake)])
    assert verdict.failed is None
    assert [one.state for one in verdict.findings["sums"]] == ["doubtful"] * 2


def test_gloo_does_not_connect() -> None:
    ranks = [rank(0), {**rank(1), "attempt": {"error": "no route", "ended": "", "output": []}}]
    assert failed(*ranks) == ("gloo", ["h1"], "no route")


@pytest.mark.parametrize(
    ("first", "second", "hosts", "message"),
    [
        ("10.0.0.1", "127.0.1.1", ["h1"], "its name leads to its loopback, 127.0.1.1: no route"),
        ("10.0.0.1", "::1", ["h1"], "its name leads to its loopback, ::1: no route"),
        ("10.0.0.1", "", ["h1"], "its name has no address: no route"),
        ("10.0.0.1", "fe80::1", ["h1"],
         "its address is fe80::1, that of rank 0 10.0.0.1: no route"),
        ("127.0.1.1", "127.0.1.1", ["h0", "h1"],
         "its name leads to its loopback, 127.0.1.1: no route"),
        ("127.0.1.1", "10.0.0.2", ["h0"], "its name leads to its loopback, 127.0.1.1: no route"),
        ("fe80::1", "fe80::2", ["h0", "h1"], "no route"),
    ],
)  # fmt: skip
def test_addresses_that_gloo_cannot_connect(
    first: str, second: str, hosts: list[str], message: str
) -> None:
    """The hosts at fault are named, and no host where the ranks are all on one."""
    lost = {"attempt": {"error": "no route", "ended": "", "output": []}}
    ranks = [{**rank(0), "address": first, **lost}, {**rank(1), "address": second, **lost}]
    assert failed(*ranks) == ("gloo", hosts, message)
    here = [{**one, "host": "h"} for one in ranks]
    assert failed(*here) == ("gloo", ["h"], "no route")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["203.0.113.9", "127.0.1.1"], "127.0.1.1"),  # the first that is this host's own
        (["::1", "127.0.0.1"], "::1"),
        (["203.0.113.9"], ""),
        ([], ""),
    ],
)
def test_the_address_of_a_name(
    monkeypatch: pytest.MonkeyPatch, names: list[str], found: str
) -> None:
    def resolve(*_given: object, **_named: object) -> list[tuple[Any, ...]]:
        if not names:
            raise socket.gaierror
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 0, "", (one, 0))
            for one in names
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert address.find_gloo_address({}) == found


def test_the_address_of_an_interface() -> None:
    assert address.find_gloo_address({"GLOO_SOCKET_IFNAME": "lo"}) == "127.0.0.1"
    assert address.find_gloo_address({"GLOO_SOCKET_IFNAME": "none,lo"}) == ""
    assert {("lo", "::1")} <= {*address._long()} or not socket.has_dualstack_ipv6()


def test_a_table_of_many_ranks() -> None:
    ranks = [rank(number, f"h{number // 2}") for number in range(4)]
    for one in ranks:
        one["world"] = 4
    ranks[3]["machine"] = [("doubtful", "cores 0 are slow")]
    for one in ranks[2:]:
        one["attempt"]["report"].update(step="capabilities", passed=[], objection="no switchml.cfg")
    lines = [*table.lines(table.data(checks.judge(ranks)))]
    assert lines[0].split()[:4] == ["host", "ranks", "of", "it"]
    assert [line.split()[:2] for line in lines[1:3]] == [["h0", "0-1"], ["h1", "2-3"]]
    assert lines[3:] == [
        "switchml.cfg: h1, ranks 2-3: no switchml.cfg",
        "machine: h1, rank 3: cores 0 are slow",
        "what to do: copy one file to all hosts, without rank and num_workers",
    ]


def test_from_which_size_on_switchml_is_faster() -> None:
    def times(*each: tuple[float, float]) -> list[dict[str, float]]:
        return [
            {"numel": 4.0**place, "switchml": own, "gloo": gloo}
            for place, (own, gloo) in enumerate(each)
        ]

    one, other = times((3, 1), (1, 2), (1, 9)), times((1, 1), (5, 2), (8, 9))
    found = measure.summarize([one, other])
    assert found is not None
    assert found["min_numel"] == 16
    assert found["sizes"][1] == {"numel": 4.0, "switchml": 5, "gloo": 2}
    slow = measure.summarize([times((1, 2), (3, 2))])
    assert slow is not None
    assert slow["min_numel"] is None
    assert measure.summarize([one, []]) is None
    lines = [*table.lines(table.data(checks.judge([rank(0), rank(1)]), found))]
    assert lines[-1] == "SwitchML is faster from 16 elements on: export SWITCHML_MIN_NUMEL=16"
    simulated = checks.judge([rank(number, report={"simulator": True}) for number in (0, 1)])
    for measured in (found, slow):
        *_, last = table.lines(table.data(simulated, measured))
        assert last == "the switch is simulated: these times say nothing about one in a network"
    assert [*table.lines(table.data(checks.judge([rank(0), rank(1)]), slow))][-1].startswith("Gloo")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("RANK", "", "RANK is not set; start it by torchrun, srun or mpirun, or"),
        ("RANK", "x", "RANK is 'x', not a number"),
        ("RANK", "2", "RANK is 2, and WORLD_SIZE 2; ranks are 0 to 1"),
        ("WORLD_SIZE", "9" * 5000, "WORLD_SIZE is '99999999999999999999', not a number"),
        ("MASTER_PORT", "65536", "MASTER_PORT is 65536, not a port"),
        ("MASTER_PORT", "-1", "MASTER_PORT is '-1', not a number"),
    ],
)
def test_what_no_launcher_says(name: str, value: str, message: str) -> None:
    usual = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    assert find_problem(usual) == ""
    assert find_problem({**usual, name: value}).startswith(message)


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1", "x", "1e300"])
def test_a_limit_that_nobody_means(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        of_rank._parse(["--timeout", value])
    assert f"argument --timeout: invalid seconds value: '{value}'" in capsys.readouterr().err


def test_steps_are_those_of_the_delegate() -> None:
    """The page names them as the delegate's one table, in its order."""
    lines = (DOCS / "reference.md").read_text().splitlines()
    (row,) = [line for line in lines if line.startswith("| `step` |")]
    assert re.findall(r"`(\w+)`", row)[2:] == STEPS[:-1]
