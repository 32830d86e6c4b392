"""The real client library, compiled from the checkout that SWITCHML_SOURCE names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import real_client, switch_program
from support.device import clang, device, probed
from support.real import LabLauncher
from support.shared import once
from support.sml_controller import make_controller
from support.torch import Plugin, built_plugin, checked, torch

from patchgen.extras.lab import switch as switches
from patchgen.system import native

# Without them it compiles nowhere, or does not start with a port in software.
NEEDED = ("dpdk-names", "first-timeout", "flow-rules", "glog", "start-waits", "refused", "stop")


@pytest.fixture(scope="session")
def checkout() -> Path:
    return real_client.source()


@pytest.fixture(scope="session")
def switch(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> str:
    assert checkout.is_dir()
    cache = str(switch_program.cache(tmp_path_factory))
    return native.get_or_build(switches.PROJECT, cache, os.environ).path


def library(
    factory: pytest.TempPathFactory, checkout: Path, name: str, without: Sequence[str] = ()
) -> Path:
    left = [word for one in without for word in ("--without", one)]
    return once(
        factory,
        name,
        lambda place: checked("client", "build", checkout, "--dpdk", "-o", place, *left),
    )


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Path:
    """A SWITCHML_HOME with all fixes."""
    return library(tmp_path_factory, checkout, "client")


@pytest.fixture(scope="session")
def half_batches(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Path:
    """One without the fix of that name."""
    return library(tmp_path_factory, checkout, "half-batches", ["half-batch"])


@pytest.fixture(scope="session")
def unfixed(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Path:
    """One with those fixes only without which nothing starts."""
    from patchgen.extras.client import fixes

    left = [fix.id for fix in fixes.read_shipped() if fix.id not in NEEDED]
    return library(tmp_path_factory, checkout, "unfixed", left)


@pytest.fixture(scope="session")
def plugin(
    request: pytest.FixtureRequest, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Plugin:
    """The plugin in PyPI's torch, with the library that has all fixes."""
    if "SWITCHML_TEST_PYTHON" in os.environ:
        pytest.skip("the torch that SWITCHML_TEST_PYTHON names is for a graft")
    torch: Path = request.getfixturevalue("torch")
    environ = {"CXXFLAGS": "-Werror"}  # optimized, as by users
    return built_plugin(torch, home, tmp_path_factory, "real-plugin", "--dpdk", environ=environ)


@pytest.fixture(scope="session")
def controller(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Path:
    """The modules of SwitchML's own controller, with all fixes."""
    assert checkout.is_dir()
    return once(tmp_path_factory, "controller", make_controller)


@pytest.fixture(scope="session")
def by_plugin(
    plugin: Plugin, home: Path, switch: str, tmp_path_factory: pytest.TempPathFactory
) -> LabLauncher:
    return LabLauncher(
        python=plugin.python,
        loading={"SWITCHML_TEST_BACKEND": "switchml"},
        report=plugin.package / "_patch.py",
        home=home,
        scratch=tmp_path_factory.mktemp("plugin-ranks"),
        switch=switch,
    )


@pytest.fixture(scope="session")
def by_graft(
    home: Path,
    switch: str,
    torch_python: Path,
    patched: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> LabLauncher:
    def make(place: Path) -> None:
        given = ("--torch", torch_python, "--source", patched, "--switchml-home", home, "--dpdk")
        checked("graft", "build", *given, "-o", place / "graft.so")

    graft = once(tmp_path_factory, "real-graft", make) / "graft.so"
    return LabLauncher(
        python=torch_python,
        loading={"SWITCHML_TEST_GRAFT": str(graft)},
        report=patched / "torch" / "distributed" / "switchml.py",
        home=home,
        scratch=tmp_path_factory.mktemp("graft-ranks"),
        switch=switch,
    )


@pytest.fixture(scope="session", params=["plugin", "graft"])
def launch(request: pytest.FixtureRequest, checkout: Path) -> LabLauncher:
    assert checkout.is_dir()
    launcher: LabLauncher = request.getfixturevalue(f"by_{request.param}")
    return launcher
