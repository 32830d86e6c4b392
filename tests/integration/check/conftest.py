"""Modules that the tests of check find on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules of a gRPC that pkg-config knows without a home, and needs no time to think about.

    About Debian's it thinks for a second, and CMake asks it a dozen times.
    """
    directory = tmp_path_factory.mktemp("pkgconfig")
    for name in ("protobuf", "grpc++"):
        text = f"Name: {name}\nDescription: x\nVersion: 1.2.3\nLibs: -l{name}\n"
        (directory / f"{name}.pc").write_text(text)
    return directory


@pytest.fixture(autouse=True)
def own_modules(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PKG_CONFIG_PATH", str(modules))
