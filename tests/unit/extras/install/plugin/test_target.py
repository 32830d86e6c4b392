"""What is missing for a plugin is told before anything is compiled."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from patchgen.core.torch import Torch
from patchgen.errors import FileError, ToolError
from patchgen.extras.install.plugin import target

HEADERS = "torch/include/torch/csrc/distributed/c10d"


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Torch:
    """A torch with headers, on a machine that has none."""
    monkeypatch.setattr(target, "_COMPILERS", ())
    for name in (f"{HEADERS}/Backend.hpp", "torch/include/pybind11/pybind11.h", "python/Python.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("class Backend { virtual void one(); };\n")
    (tmp_path / "torch" / "include" / "ATen").mkdir()
    (tmp_path / "torch" / "utils").mkdir()
    (tmp_path / "torch" / "utils" / "cpp_extension.py").write_text("flags = ['-std=c++20']\n")
    return Torch(
        python=str(tmp_path / "python3"), version="2.13.0+cpu", commit="", cuda=None,
        cxx11_abi=True, gloo=True, root=str(tmp_path / "torch"),
        python_include=str(tmp_path / "python"), purelib="", tag="cp311",
    )  # fmt: skip


def test_all_is_there(torch: Torch) -> None:
    wanted = dataclasses.replace(
        torch, abi_tag="cp311d", platform="linux-x86_64", suffix=".so", pybind11={"A": "_gcc"}
    )
    found = target.inspect(wanted, {})
    assert (found.tag, found.suffix) == ("cp311-cp311d-linux_x86_64", ".so")
    free_threaded = dataclasses.replace(wanted, tag="cp313", abi_tag="cp313t")
    assert target.inspect(free_threaded, {}).tag == "cp313-cp313t-linux_x86_64"
    assert (found.standard, found.definitions) == (20, ('A="_gcc"',))
    assert [method.name for method in found.methods] == ["one"]
    os.unlink(os.path.join(torch.root, "utils", "cpp_extension.py"))
    with pytest.raises(FileError, match=r"cpp_extension\.py: No such file"):
        target.inspect(torch, {})


def test_what_this_torch_has(torch: Torch, tmp_path: Path) -> None:
    found = target.inspect(torch, {})
    assert (found.flight_recorder, found.sequence, found.entry_points) == (False, False, ())
    headers = tmp_path / HEADERS
    (headers / "FlightRecorder.hpp").write_text("dump_fr_trace();\n")
    (headers / "ProcessGroupGloo.hpp").write_text("void setSequenceNumberForGroup() override;\n")
    (tmp_path / "torch" / "__init__.py").write_text('group_name = "torch.backends"\n')
    found = target.inspect(torch, {})
    assert (found.flight_recorder, found.sequence) == (False, True)
    assert found.entry_points == ("torch.backends",)
    (headers / "FlightRecorder.hpp").write_text("TORCH_API A* getFlightRecorder(\n")
    (tmp_path / "torch" / "distributed").mkdir()
    (tmp_path / "torch" / "distributed" / "distributed_c10d.py").write_text(
        'entry_points(group="torch.distributed.backends")\n'
    )
    found = target.inspect(torch, {})
    assert found.flight_recorder
    assert found.entry_points == ("torch.backends", "torch.distributed.backends")


@pytest.mark.parametrize(
    ("missing", "output"),
    [
        (f"{HEADERS}/Backend.hpp", r"torch 2\.13\.0\+cpu of .* has no headers: .*again"),
        ("torch/include/pybind11/pybind11.h", "pybind11 is missing: .*pybind11-dev"),
        ("python/Python.h", "Python's headers are missing: .*python3-dev"),
    ],
)
def test_what_is_missing(torch: Torch, tmp_path: Path, missing: str, output: str) -> None:
    (tmp_path / missing).unlink()
    with pytest.raises(ToolError, match=output):
        target.inspect(torch, {})


@pytest.mark.parametrize(
    ("version", "output"),
    [
        ("1.12.1+cu116", r"PyTorch 1\.13 and newer; patch or graft this one"),
        ("1.13.1", r"no torch/csrc/distributed/c10d/ProcessGroup\.hpp"),  # has no backends
    ],
)
def test_older_torches(torch: Torch, version: str, output: str) -> None:
    with pytest.raises(ToolError, match=output):
        target.inspect(dataclasses.replace(torch, version=version), {})
