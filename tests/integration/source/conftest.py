"""The world of the tests of `source`: one for all of them, with a home for each."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.source import World, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> World:
    base = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(base))
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "Tester")
            patch.setenv(f"GIT_{role}_EMAIL", "tester@localhost")
        return build(base, base)


@pytest.fixture
def world(built: World, isolated: Path) -> World:
    here = World(isolated, built.served, built.pin, built.pin_file, built.commits)
    here.route(f"file://{built.served}")
    return here


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Where nothing is yet."""
    return tmp_path / "t"
