"""The real client library in the simulator's place: only SWITCHML_HOME changes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from support import real as real_library
from support.launcher import Launcher
from support.torch import checked, results

CONFIG = {"prepostprocessor": "cpu_exponent_quantizer", "bandwidth": 0}


@pytest.fixture(scope="module")
def real(
    launch: Launcher, patched: Path, torch_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Launcher:
    home = real_library.dummy(tmp_path_factory)
    lib = tmp_path_factory.mktemp("real") / "graft.so"
    arguments = ["--torch", str(torch_python), "--source", str(patched), "-o", str(lib)]
    checked("graft", "build", *arguments, "--switchml-home", home)
    return dataclasses.replace(
        launch,
        loading={"SWITCHML_TEST_GRAFT": str(lib)},
        home=home,
        scratch=tmp_path_factory.mktemp("real-ranks"),
        servers=None,
        runs=[],
    )


@pytest.mark.parametrize("world", [1, 2])
def test_the_dummy_backend_is_refused(real: Launcher, world: int) -> None:
    """It talks to nobody, so several ranks get true sums from Gloo; one alone sums nothing."""
    ranks = real("outcome", world, config=CONFIG)
    for result in results(ranks):
        assert result["report"]["simulator"] is False
        assert result["report"]["calls"] == 0
    assert "does not sum over the ranks" in ranks[0].err


@pytest.mark.parametrize("world", [1, 2])
def test_the_dummy_backend_runs(real: Launcher, tmp_path: Path, world: int) -> None:
    """In one group after another: the library aborts when its context starts or stops twice."""
    env = {"SWITCHML_ALLOW_FAKE_SUMS": "1"}
    arguments = {"times": 3, "store": str(tmp_path)}
    for result in results(real("same_values", world, config=CONFIG, env=env, arguments=arguments)):
        assert result["report"]["calls"] == 6


@pytest.mark.parametrize("world", [1, 2])
def test_nothing_finite_comes_of_inf_and_nan(real: Launcher, world: int) -> None:
    """The dummy backend multiplies a rank's own values, so the last rank alone sees its own."""
    env = {"SWITCHML_ALLOW_FAKE_SUMS": "1"}
    ranks = results(real("nonfinite", world, config=CONFIG, env=env))
    assert ranks[world - 1]["finite"] == [False] * 4
