"""What the dynamic linker binds where the real client library is beside torch."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.real import LabLauncher
from support.torch import results

from patchgen.core.patch import render

PACKAGES = ("onnx", "protobuf", "ml_dtypes", "typing_extensions", "numpy<2", "sentencepiece")
"""ONNX with what it imports, and SentencePiece, which has a protobuf of its own in C++."""
BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: \w+ symbol `(.*?)'")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with PACKAGES, for any torch."""
    place = tmp_path_factory.mktemp("packages")
    pip = [sys.executable, "ci/pip", "install", "--quiet", "--no-deps", "--target", str(place)]
    subprocess.run([*pip, *PACKAGES], check=True)
    return place


def bindings(log: Path) -> Iterator[tuple[str, str, str]]:
    """Yield which file took which symbol from which other file."""
    for path in log.parent.glob(f"{log.name}.*"):
        with path.open(errors="replace") as lines:
            yield from ((m[1], m[2], m[3]) for line in lines if (m := BINDING.search(line)))


def needed(library: Path) -> set[str]:
    """Return the real paths of the libraries that a library needs, and of theirs."""
    listed = subprocess.check_output(["ldd", library], text=True)
    return {str(Path(path).resolve()) for path in re.findall(r"=> (/\S+)", listed)}


def test_torch_binds_to_nothing_of_the_library(
    launch: LabLauncher, packages: Path, tmp_path: Path
) -> None:
    """Torch and SentencePiece write their models as without the library."""
    log = tmp_path / "bindings"
    watched = {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(log)}
    ranks = launch(
        "symbol_cases:exports", 2, env={"PYTHONPATH": str(packages)}, rank_env={0: watched},
        fresh=True,
    )  # fmt: skip
    for result in results(ranks):
        assert result["report"]["delegating"] is True
        assert (result["operators"], result["decoded"]) == (["Gemm"], "two one")
    torch = Path(ranks[0].result["torch"]).resolve()
    loaded = {(one, other, symbol) for one, other, symbol in bindings(log)}
    (library,) = {one for one, _, _ in loaded if Path(one).name == render.LIBRARY}
    (core,) = {one for one, _, _ in loaded if Path(one).name.startswith("libtorch_cpu.so")}
    ours = {str(Path(library).resolve())} | needed(Path(library)) - needed(Path(core))
    assert any("libgrpc++" in path for path in ours)
    wrong = {
        (one, other, symbol)
        for one, other, symbol in loaded
        if torch in Path(one).resolve().parents or Path(one).name.startswith(("libtorch", "libc10"))
        if str(Path(other).resolve()) in ours
    }
    assert wrong == set()
    graft = launch.loading.get("SWITCHML_TEST_GRAFT")
    taken = {
        symbol
        for one, other, symbol in loaded
        if other == graft and Path(one).name.startswith("libtorch")
    }
    assert (taken == set()) == (graft is None)
    names = subprocess.check_output(["c++filt"], input="\n".join(taken), text=True).split("\n")
    assert not [name for name in names if name and "c10d::" not in name]
