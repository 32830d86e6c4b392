"""SwitchML of an installed torch, from the answers of a probed interpreter."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from patchgen.core.torch import GRAFT, PLUGIN, TORCH, headers, read_answers
from patchgen.core.torch.payload import torch_probe as probe
from patchgen.errors import ToolError
from patchgen.system.interpreter import Interpreter
from patchgen.system.program import CompletedRun

SELF: dict[str, Any] = {
    "executable": "/venv/bin/python", "version": "3.11.2", "implementation": "cpython",
    "platform": "linux-x86_64", "tag": "cp311", "abi_flags": "", "soabi": "cpython-311",
    "suffix": ".so", "include": "/include", "has_header": True, "purelib": "/site", "user": None,
    "pip": "works",
}  # fmt: skip
OWN: dict[str, Any] = {
    "version": "2.9.0", "commit": "c" * 40, "cuda": None, "cxx11_abi": True, "gloo": True,
    "root": "/site/torch", "pybind11": {},
}  # fmt: skip
REPORT = {"flags": "DPDK", "simulator": True}
ANSWERS = {probe.WHERE: "/site/torch", probe.TORCH: OWN}


def answered(found: dict[str, Any], problems: dict[str, str] | None = None) -> Interpreter:
    return Interpreter(
        "/python", **SELF, found=found, problems=problems or {}, ended=CompletedRun(0, b"", b"")
    )


def hook(**values: Any) -> dict[str, Any]:
    return {probe.HOOK: {"wanted": "/graft.so", "loaded": None, "problem": "", **values}}


@pytest.mark.parametrize(
    ("found", "variants"),
    [
        ({}, []),
        ({probe.PATCH: None}, []),
        ({probe.PATCH: REPORT}, [TORCH]),
        ({probe.PATCH: REPORT, **hook(loaded="/graft.so")}, [GRAFT]),
        ({probe.PLUGIN: REPORT}, [PLUGIN]),
        ({probe.PLUGIN: REPORT, probe.PATCH: REPORT}, [TORCH, PLUGIN]),
        ({probe.PLUGIN: REPORT, probe.PATCH: REPORT, **hook(loaded="/g")}, [GRAFT, PLUGIN]),
    ],
)
def test_reports_are_by_variant_and_the_plugin_is_last(
    found: dict[str, Any], variants: list[str]
) -> None:
    installed = read_answers(answered({**ANSWERS, **found}))
    assert [*installed.reports] == variants
    assert installed.require_gloo().abi_tag == "cp311"


@pytest.mark.parametrize(
    ("found", "problems", "expected"),
    [
        (hook(problem="of another torch"), {}, {GRAFT: "of another torch"}),
        ({}, {probe.PATCH: "crashed"}, {TORCH: "crashed"}),
        (hook(loaded="/graft.so"), {probe.PATCH: "crashed"}, {GRAFT: "crashed"}),
        ({}, {probe.PLUGIN: "undefined symbol"}, {PLUGIN: "undefined symbol"}),
    ],
)
def test_problems_are_by_variant(
    found: dict[str, Any], problems: dict[str, str], expected: dict[str, str]
) -> None:
    installed = read_answers(answered({**ANSWERS, **found}, problems))
    parts = {TORCH: installed.patched, GRAFT: installed.graft, PLUGIN: installed.plugin}
    assert {name: part.problem for name, part in parts.items() if part.problem} == expected
    assert all(installed.problem_of(name) == problem for name, problem in expected.items())


def test_torch_that_cannot_be_imported_or_has_no_gloo_is_refused() -> None:
    installed = read_answers(answered({probe.WHERE: "/site/torch"}, {probe.TORCH: "no libcudart"}))
    assert (installed.root, installed.torch, installed.is_missing) == ("/site/torch", None, False)
    assert installed.problem_of(GRAFT) == "no libcudart"
    with pytest.raises(ToolError, match="/python cannot import torch: no libcudart"):
        installed.require_gloo()
    missing = read_answers(answered({probe.WHERE: None}, {probe.TORCH: "No module named 'torch'"}))
    assert missing.is_missing
    installed = read_answers(answered({**ANSWERS, probe.TORCH: {**OWN, "gloo": False}}))
    with pytest.raises(ToolError, match=r"the torch 2\.9\.0 of /python has no Gloo process group"):
        installed.require_gloo()


def test_a_torch_that_does_not_name_its_headers_in_time() -> None:
    assert probe.within(60, lambda: ["/include"]) == ["/include"]
    with pytest.raises(RuntimeError, match="no answer in 0 seconds"):
        probe.within(0, Event().wait)
    with pytest.raises(RuntimeError, match="ModuleNotFoundError: No module named 'none_such'"):
        probe.within(60, lambda: __import__("none_such"))


def test_headers_of_a_torch_that_names_none(tmp_path: Path) -> None:
    """They are in its package, else beside Python's own, as in a prefix of conda."""
    root, prefix = tmp_path / "site" / "torch", tmp_path / "include"
    python = str(prefix / "python3.12")

    def locate(*named: Path) -> list[Path]:
        found = headers.locate([*map(str, named)], str(root), python)
        assert found[1:] in ([], [f"{found[0]}/torch/csrc/api/include"])
        return [Path(found[0])]

    (prefix / "ATen").mkdir(parents=True)
    assert locate() == locate(tmp_path) == locate(tmp_path / "none") == [prefix]
    (root / "include" / "ATen").mkdir(parents=True)
    assert locate() == [root / "include"]
    assert locate(prefix, tmp_path / "none") == [prefix]


@pytest.mark.parametrize(
    ("version", "torch", "fits"),
    [
        ("2.13.0", "2.13.0+cpu", True),
        ("1.13.0", "1.13.0a0", True),
        ("1.8.0", "1.8.1", True),  # whose version.txt is 1.8.0a0
        ("2.9.1", "2.9.0", False),
        ("2.1.0", "2.10.0", False),
        ("1.13.0", "2.13.0+cpu", False),
        ("2.6.0", "2.6.0a0+ecf3bae40a.nv25.01", True),
        ("2.6.0", "2.6", True),
        ("2.6.0", "unknown", True),
    ],
)
def test_versions_of_headers(version: str, torch: str, *, fits: bool) -> None:
    assert headers.is_of(version, torch) == fits
