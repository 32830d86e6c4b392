"""`status` of an interpreter or a wheel, with a torch of a few lines."""

from __future__ import annotations

import json
from pathlib import Path

from support import graft as graft_support
from support.graft import BROKEN, COMMIT, VERSION, Site
from support.trees import tool
from support.wheelhouse import Entry, zipped

from patchgen.system import interpreter, zips


def test_status_of_what_is_there(site: Site) -> None:
    data, lines = site.status()
    torch = {"version": VERSION, "commit": COMMIT, "cuda": None, "root": str(site.torch.root)}
    assert (data["state"], data["torch"], data["graft"], data["plugin"]) == (
        "stock", torch, None, None
    )  # fmt: skip
    assert lines.startswith(f"{site.python}: stock; Python 3.")
    site.install()
    data, lines = site.status()
    assert (data["state"], data["flags"], data["simulator"]) == ("grafted", "DPDK", True)
    assert data["graft"]["library"] == str(site.package / "graft.so")
    assert "  grafted with DPDK, the simulator\n" in lines
    hook = site.package / "__init__.py"  # as an earlier version has installed it
    hook.write_text(hook.read_text().replace("named_graft", "wanted"))
    assert site.status()[0]["graft"]["library"] == str(site.package / "graft.so")
    (site.torch.root / "lib" / "libtorch_cpu.so").write_text("upgraded")
    data, lines = site.status()
    assert (data["state"], data["flags"]) == ("stock", None)
    assert "another build of torch 1.2.3" in data["problems"][0]
    assert "  does not fit: the graft " in lines
    (site.package / "graft.so").unlink()
    assert "No such file" in site.status()[0]["problems"][0]


def test_status_of_a_patched_torch_and_the_plugin(site: Site) -> None:
    module = site.torch.root / "distributed" / "switchml.py"
    module.write_text("def report(): return {'flags': '', 'simulator': False}\n")
    plugin = site.torch.site / "torch_switchml.py"
    plugin.write_text("def report(): return {'flags': 'RDMA', 'simulator': False}\n")
    data, lines = site.status()
    assert (data["state"], data["flags"], data["plugin"]["flags"]) == ("patched", "", "RDMA")
    assert "  patched with no flags, the real client library\n" in lines
    assert "  plugin: torch_switchml with RDMA, the real client library\n" in lines
    plugin.write_text("raise ImportError('undefined symbol: x')")
    assert "undefined symbol: x" in site.status()[0]["problems"][0]
    plugin.write_text("import os; os.abort()")
    assert "died of SIGABRT" in site.status()[0]["problems"][0]
    module.unlink()
    plugin.unlink()


def test_status_of_torches_that_do_not_work(site: Site) -> None:
    start = site.torch.root / "__init__.py"
    start.write_text("raise OSError('libcudart.so: cannot open')")
    data, lines = site.status()
    assert data["state"] == BROKEN
    assert data["problems"] == ["OSError: libcudart.so: cannot open"]
    assert BROKEN in lines
    start.write_text("import os; os.abort()")
    assert site.status()[0]["problems"] == ["died of SIGABRT"]
    assert interpreter.NO_PYTHON in tool("status", "true", code=4).stderr


def test_status_of_an_interpreter_without_torch(tmp_path: Path) -> None:
    python = graft_support.venv(tmp_path / "venv")
    assert tool("status", str(python), code=3).stdout.startswith(f"{python}: no torch; Python 3.")
    assert "drop it" in tool("status", str(python), "--pytorch", "v1.7.1", code=2).stderr


def test_status_of_a_wheel(tmp_path: Path) -> None:
    path = tmp_path / "torch-1.7.1-x.whl"
    text = b"__version__ = '1.7.1+switchml.dpdk.mlx5'\ngit_version = '57bffc3'\n"
    version = Entry("torch/version.py", text)
    zipped(path, [version])
    assert json.loads(tool("status", str(path), "--json").stdout)["state"] == "stock"
    zipped(path, [version, Entry("torch/distributed/switchml.py")])
    lines = tool("status", str(path)).stdout.splitlines()
    assert lines == [
        f"{path}: patched; torch 1.7.1+switchml.dpdk.mlx5 (commit 57bffc3)",
        "  patched with DPDK MLX5",
    ]
    other = tmp_path / "other.whl"
    zipped(other, [Entry("x.py")])
    assert "no wheel of torch" in tool("status", str(other), code=3).stderr
    other.write_text("no archive")
    assert zips.NO_ARCHIVE in tool("status", str(other), code=3).stderr
