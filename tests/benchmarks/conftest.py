"""Torch and launcher of the tests, with a simulator and a graft that are built as users build them.

The graft and simulator of the tests compile faster and run slower.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support import command
from support.torch import launch, patch_launch, patched, servers, torch, torch_python

from patchgen.system.native import tools


def build(*arguments: str | Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not tools.is_read(name)}
    done = command.run(*arguments, env=environ)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("home") / "simulator"
    build("simulator", "install", "-o", made)
    return made


@pytest.fixture(scope="session")
def graft(
    torch_python: Path, patched: Path, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Prints the compiler of the graft and of the simulator in it."""
    made = tmp_path_factory.mktemp("graft") / "graft.so"
    given = ("--torch", torch_python, "--source", patched, "--switchml-home", home)
    build("graft", "build", *given, "-o", made)
    provenance = json.loads(Path(f"{made}.provenance.json").read_text())
    built = provenance["predicate"]["buildDefinition"]
    resolved = built["internalParameters"]
    simulator = resolved["client"]["predicate"]["buildDefinition"]
    for part in (built, simulator):
        variables = part["externalParameters"]["variables"]
        assert variables == {}, f"no user's build: {variables}"
    compiler = resolved["toolchain"]["programs"]["c++"]
    print(f"\ncompiled by {compiler}, Release, with no flags but those of switchml-patch")
    return made
