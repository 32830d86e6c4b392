"""A wheel with its libraries, in a bare Debian 12: nothing but Python and torch, and real ranks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from support.configs import with_values
from support.shared import once
from support.torch import checked, located

from patchgen.system.ports import free_port

pytestmark = pytest.mark.integration

ARCHIVES = Path("/usr/lib/x86_64-linux-gnu")
HEADERS = ("/usr/include/dpdk", "/usr/include/x86_64-linux-gnu/dpdk")
# The part of DPDK that ports in software need.
PARTS = (
    *("bus_pci", "bus_vdev", "cryptodev", "eal", "ethdev", "gro", "gso", "hash", "ip_frag"),
    *("kvargs", "mbuf", "mempool", "mempool_ring", "meter", "net", "net_memif", "net_tap", "pci"),
    *("rcu", "ring", "security", "telemetry", "timer"),
)
RANK = """
import os, torch, torch.distributed as dist, torch_switchml
dist.init_process_group("switchml")
tensor = torch.ones(1000)
dist.all_reduce(tensor)
report = torch_switchml.report()
print("sum", tensor.unique().tolist(), "calls", report["calls"], "flags", report["flags"])
for line in open("/proc/self/maps"):
    if ".so" in line:
        print("mapped", line.split()[-1])
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare Debian 12 with its Python."""
    if os.getuid() or shutil.which("debootstrap") is None:
        pytest.skip("needs root and debootstrap, for a bare Debian 12")
    told = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    mirror = subprocess.check_output(told, text=True).split()[0]
    root = tmp_path_factory.mktemp("bare") / "debian12"
    given = ["--variant=minbase", "--include=python3", "bookworm", str(root), mirror]
    subprocess.run(["debootstrap", *given], check=True, stdout=subprocess.DEVNULL)
    return root


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Path:
    """A SWITCHML_HOME whose library is compiled against a static DPDK."""
    dpdk = tmp_path_factory.mktemp("dpdk")
    for headers in HEADERS:
        shutil.copytree(headers, dpdk / "include", dirs_exist_ok=True)
    (dpdk / "lib").mkdir()
    added = "".join(f"ADDLIB {ARCHIVES}/librte_{part}.a\n" for part in PARTS)
    script = f"CREATE {dpdk}/lib/libdpdk_static.a\n{added}SAVE\nEND\n"
    subprocess.run(["ar", "-M"], input=script, text=True, check=True)
    (dpdk / "lib/libdpdk.a").write_text("INPUT(libdpdk_static.a AS_NEEDED(-lbsd -lnuma))\n")
    return once(
        tmp_path_factory,
        "static",
        lambda place: checked(
            "client", "build", checkout, "--dpdk", "--dpdk-home", dpdk, "-o", place
        ),
    )


def test_a_shared_dpdk_is_refused(home: Path, torch: Path, tmp_path: Path) -> None:
    from support import command

    given = ("--dpdk", "--switchml-home", home, "--torch", torch, "-o", tmp_path / "dist")
    done = command.run("plugin", "build", "--bundle", *given)
    assert done.returncode == 4
    assert re.search(r"error: librte_\w+\.so\.\d+(\.\d+)? is of DPDK", done.stderr)
    assert not (tmp_path / "dist").exists()


def test_ranks_in_a_bare_debian(static: Path, torch: Path, folder: Path, tmp_path: Path) -> None:
    given = ("--dpdk", "--switchml-home", static, "--torch", torch, "-o", tmp_path)
    checked("plugin", "build", "--bundle", *given)
    (wheel,) = tmp_path.glob("*.whl")
    assert "-manylinux_2_3" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "opt" / "plugin")
    (folder / "opt" / "rank.py").write_text(RANK)
    port = free_port()
    ranks = []
    for rank in range(2):
        config = with_values(
            (static / "switchml.cfg").read_text(),
            {"rank": rank, "num_workers": 2, "backend": "dummy"},
        )
        (folder / "opt" / f"{rank}.cfg").write_text(config)
        ranks.append(start(folder, located(torch).parent, rank, port))
    for process in ranks:
        out, _ = process.communicate(timeout=600)
        assert process.returncode == 0, out
        assert "sum [2.0] calls 1 flags DPDK" in out
        mapped = re.findall(r"^mapped (.*)$", out, re.MULTILINE)
        brought = [path for path in mapped if "/torch_switchml.libs/" in path]
        assert {Path(path).name.partition("-")[0] for path in brought} >= {"libglog", "libgrpc++"}
        others = [path for path in mapped if re.search("glog|grpc|boost|protobuf|librte", path)]
        assert {*others} <= {*brought}


def start(folder: Path, site: Path, rank: int, port: int) -> subprocess.Popen[str]:
    """A rank in the folder, which sees torch's directory of packages at its own path."""
    inside = 'mkdir -p "$1$2" && mount --bind "$2" "$1$2" && mount -t proc proc "$1/proc" && '
    inside += 'mount --rbind /dev "$1/dev" && shift 2 && exec "$@"'
    variables = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"/opt/plugin:{site}",
        "RANK": rank,
        "WORLD_SIZE": 2,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "SWITCHML_CONFIG": f"/opt/{rank}.cfg",
        "SWITCHML_REQUIRE": 1,
        "SWITCHML_ALLOW_FAKE_SUMS": 1,
    }
    return subprocess.Popen(
        [
            *("unshare", "--mount", "sh", "-euc", inside, "sh", str(folder), str(site)),
            *("chroot", str(folder), "env", "-i", *(f"{n}={v}" for n, v in variables.items())),
            *("python3", "/opt/rank.py"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
