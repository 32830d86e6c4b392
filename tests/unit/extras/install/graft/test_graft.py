"""Which torch a source and a graft belong to, and where headers are."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import miniature
from support.demo_outcomes import TORCH
from support.graft import make

from patchgen.core.patch import pins
from patchgen.core.torch import Torch
from patchgen.errors import OptionsError, ToolError, TreeError
from patchgen.extras.install.graft import cuda, identity, project
from patchgen.extras.install.graft.identity import Identity, misfit, read
from patchgen.extras.install.graft.sources import (
    GraftOrigin,
    check_version,
    gather,
    gloo_directory,
    pin_of,
)
from patchgen.extras.install.payload import graft_hook
from patchgen.options import resolve

PINS = pins.shipped()
PIN = pins.find("1.13.1", PINS)


def torch(
    version: str = "1.13.1", commit: str = "Unknown", root: str = "/nowhere", **others: Any
) -> Torch:
    return replace(TORCH, version=version, commit=commit, root=root, **others)


@pytest.mark.parametrize(
    ("version", "commit"),
    [
        ("1.13.1", "Unknown"),
        ("1.13.1+cpu", "Unknown"),
        ("1.13.0a0", "Unknown"),
        ("anything", PIN.commit),
    ],
)
def test_same_release(version: str, commit: str) -> None:
    check_version(torch(version, commit), PIN)
    assert pin_of(torch(version, commit), PINS) == PIN


@pytest.mark.parametrize(
    ("version", "commit"),
    [("1.12.1", "Unknown"), ("1.13.10", "Unknown"), ("2.1.0", "Unknown"), ("1.13.1", "0" * 40)],
)
def test_another_release(version: str, commit: str) -> None:
    with pytest.raises(TreeError, match=r"a graft is made from the source of its own torch"):
        check_version(torch(version, commit), PIN)
    with pytest.raises(OptionsError, match=r"no pin for it(.|\n)*plugin install"):
        pin_of(torch(version, commit), PINS)


@pytest.mark.parametrize("layout", ["torch-csrc-2", "torch-csrc-2.8"])
def test_a_commit_with_the_same_process_group(tmp_path: Path, layout: str) -> None:
    """Its other files may differ, and its process group may not."""
    own = "0123456789" * 4
    pin = miniature.write(tmp_path, layout)._replace(grafts=(own,))
    for name in ("ATen/ATen.h", "gloo/allreduce.h"):
        header(tmp_path / "torch" / "include", name)
    found = torch("1.13.9", own, root=str(tmp_path / "torch"))
    *process_group, other = (file.path for file in pin.files)
    (tmp_path / other).write_text("another")
    used, sources = gather(found, str(tmp_path), [pin], GraftOrigin(""))
    assert (used.name, used.commit, [*sources]) == (pin.name, own, process_group)
    (tmp_path / process_group[-1]).write_text("another")
    with pytest.raises(TreeError):
        gather(found, str(tmp_path), [pin], GraftOrigin(""))
    with pytest.raises(OptionsError, match="no pin for it"):
        gather(torch("1.13.9", "0" * 40), None, [pin], GraftOrigin(""))


def test_a_source_that_several_pins_match(tmp_path: Path) -> None:
    """The torch decides which of them it is, as the source has no HEAD."""
    first = miniature.write(tmp_path / "source", "torch-csrc")
    both = [first, first._replace(name="v0.0.2", version="0.0.2", commit="0" * 40)]
    header(tmp_path / "torch", "include/gloo/allreduce.h")
    for pin in both:
        found = torch(pin.version, pin.commit, root=str(tmp_path / "torch"))
        assert gather(found, str(tmp_path / "source"), both, GraftOrigin(""))[0] == pin


def header(directory: Path, name: str) -> None:
    (directory / name).parent.mkdir(parents=True, exist_ok=True)
    (directory / name).touch()


def test_gloo_of_the_package_of_the_distribution_or_none(tmp_path: Path) -> None:
    package, system = tmp_path / "torch", tmp_path / "usr"
    (system / "ATen").mkdir(parents=True)
    (package / "include").mkdir(parents=True)
    (package / "include" / "ATen").symlink_to(system / "ATen")
    found = torch(root=str(package))
    assert gloo_directory(found) is None
    header(system, "gloo/allreduce.h")
    assert gloo_directory(found) == str(system)
    header(package, "include/gloo/allreduce.h")
    assert gloo_directory(found) == str(package / "include")


def test_missing_headers_of_a_distribution_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.exists", lambda _: False)
    with pytest.raises(ToolError, match="libgloo-dev"):
        gloo_directory(torch())


def test_headers_of_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a toolkit, or of NVIDIA's packages beside torch."""
    found = torch(cuda="10.2", root=str(tmp_path / "site" / "torch"))
    for number, name in enumerate(cuda.HEADERS):
        header(tmp_path / "toolkit" / "include", name)
        header(tmp_path / "site" / "nvidia" / ("a", "b")[number % 2] / "include", name)
    runtime = tmp_path / "toolkit" / "include" / "cuda_runtime_api.h"
    runtime.write_text("#define CUDART_VERSION  11070\n")
    given = cuda.find(found, str(tmp_path / "toolkit"))
    assert given == cuda.Cuda((str(tmp_path / "toolkit" / "include"),), "11.7")
    monkeypatch.chdir(tmp_path)
    assert cuda.find(found, "toolkit") == given
    beside = cuda.find(found, None)
    assert beside is not None
    assert len(beside.include_dirs) == 2
    assert cuda.find(torch(), str(tmp_path / "toolkit")) is None
    with pytest.raises(OptionsError, match=r"has no cuda_runtime_api\.h"):
        cuda.find(found, str(tmp_path))


def test_a_library_that_is_no_graft(tmp_path: Path) -> None:
    made = json.loads(Identity({}, {}, "v2.0.0", "DPDK", "/opt/é", cuda=False).to_json())
    path = tmp_path / "lib.so"
    elf = b"\x7fELF\x02\x01" + bytes(34) + struct.pack("<Q", 64) + bytes(16)  # without sections
    with pytest.raises(TreeError, match="No such file"):
        read(str(path))
    for text, why in (
        ("{", "does not say what it is for"),
        (json.dumps({**made, "format": 0}), "another version of switchml-patch"),
        (json.dumps({**made, "more": 1}), "unexpected keyword"),
    ):
        path.write_bytes(elf + graft_hook.MARK + text.encode() + b"\0")
        with pytest.raises(TreeError, match=why):
            read(str(path))
    path.write_bytes(b"\x7fELF\x02\x01" + bytes(100))
    with pytest.raises(TreeError, match="no graft"):
        read(str(path))


def test_fingerprints_see_the_size_and_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    content = bytearray(300000)
    seen = set()
    for place in (None, 0, len(content) - 1):
        changed = bytes(content) if place is None else bytes(
            content[:place] + b"x" + content[place + 1 :]
        )  # fmt: skip
        path.write_bytes(changed)
        seen.add(graft_hook.fingerprint(str(path)))
    path.write_bytes(content + b"\0")
    seen.add(graft_hook.fingerprint(str(path)))
    assert len(seen) == 4
    path.write_bytes(b"abc")
    assert graft_hook.fingerprint(str(path)).startswith("3-")


def test_version_of_every_style() -> None:
    old = b"__version__ = '1.7.1'\ndebug = False\ncuda = '10.2'\ngit_version = '57bffc3'\n"
    new = b'__version__: str = "2.6.0+cpu"\ngit_version: str = "1eba9b3"\n'
    assert graft_hook.version_of(old) == {"version": "1.7.1", "commit": "57bffc3"}
    assert graft_hook.version_of(new) == {"version": "2.6.0+cpu", "commit": "1eba9b3"}
    assert graft_hook.version_of(b"") == {"version": None, "commit": None}


@pytest.mark.parametrize("name", ["a:b", "$ORIGIN", "${LIB}/x"])
def test_paths_that_no_run_path_holds(name: str) -> None:
    with pytest.raises(OptionsError, match="run path"):
        project._linked(torch(root=f"/opt/{name}/torch"), None)


def test_identity_of_a_torch(tmp_path: Path) -> None:
    root = str(make(tmp_path, "2.0.0", "a" * 40).root)
    options = resolve({"dpdk": True, "mlx5": True}, {}, "/")
    made = identity.identify(torch(root=root, cuda="12.4"), PIN, options, cuda=True)
    assert made.flags == "DPDK MLX5"
    assert made.torch == {
        "version": "2.0.0", "commit": "a" * 40, "cuda": "12.4", "cxx11_abi": True
    }  # fmt: skip
    assert misfit(made, root) == ""
