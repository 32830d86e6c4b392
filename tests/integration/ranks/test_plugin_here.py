"""The plugin in the torch of the patch's tests: alone, and where Gloo delegates itself."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support.forking import Servers
from support.group_checks import check_sums
from support.launcher import Launcher
from support.torch import plugin_here, plugin_launcher, results, switchml_patch, version_of

from patchgen.core.verify import summing


@pytest.fixture(scope="module")
def plugged(
    torch_python: Path, home: Path, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Launcher:
    version = version_of(torch_python)
    if tuple(map(int, version.split(".")[:2])) < (1, 13):
        pytest.skip(f"the plugin is for PyTorch 1.13 and newer, this is {version}")
    plugin = plugin_here(torch_python, home, tmp_path_factory)
    return plugin_launcher(plugin, home, tmp_path_factory.mktemp("plugged"), servers)


def test_sums_are_true_and_delegated(plugged: Launcher) -> None:
    check_sums(plugged, 3, "cpu_exponent_quantizer")


def test_verify_sums_with_the_plugin(plugged: Launcher) -> None:
    done = switchml_patch("verify", plugged.python, "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert [check for check in checks.values() if not check["ok"]] == []
    assert done.returncode == 0
    assert checks["plugin"]["found"] == "no flags, the simulator"
    assert "patched" not in checks
    assert checks["counters"]["found"] == "10 calls, 806152 bytes"
    assert checks[summing.ranks(2)]["found"] == summing.SIMULATED
    assert summing.STEPS["again"] in checks


def test_gloo_that_delegates_itself(plugged: Launcher, graft: Path) -> None:
    """Nothing is delegated twice: the case counts the calls."""
    both = {**plugged.loading, "SWITCHML_TEST_GRAFT": str(graft)}
    launch = dataclasses.replace(plugged, loading=both)
    ranks = launch("sums", 2, arguments={"sizes": [1, 1000]}, fresh=True)  # told when imported
    for result in results(ranks):
        assert result["report"]["delegating"]
    for rank in ranks:
        assert 'the backends "switchml" and "gloo" are the same' in rank.err
    lines = [line for line in ranks[0].err.splitlines() if "process group" in line]
    assert len(lines) == 1, "one agreement"
