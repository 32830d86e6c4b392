"""The path that programs of a build see, and their network, with a system that takes notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.core.wheel.payload import enclosure
from patchgen.core.wheel.sandbox import HOST, LOOPBACK, Sandbox

COMMAND = ["python", "setup.py"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    for name in ("show", "hide", "leave_network"):
        monkeypatch.setattr(enclosure, name, lambda *_, name=name: found.append(name))
    return found


def test_with_namespaces_the_work_directory_is_elsewhere(calls: list[str], tmp_path: Path) -> None:
    sandbox = Sandbox(str(tmp_path), enclosure.PATH)
    assert sandbox.path(f"{tmp_path}/source") == f"{enclosure.PATH}/source"
    assert sandbox.offline(COMMAND)[-3:] == ["--", *COMMAND]
    assert sandbox.leave_network() == LOOPBACK
    sandbox.hide()
    assert sandbox.reveal(str(tmp_path)) == f"{enclosure.PATH}/."
    assert calls == ["leave_network", "hide", "show"]


def test_without_namespaces_nothing_is_claimed(calls: list[str], tmp_path: Path) -> None:
    sandbox = Sandbox(str(tmp_path), str(tmp_path), "refused")
    assert sandbox.path(f"{tmp_path}/source") == f"{tmp_path}/source"
    assert sandbox.offline(COMMAND) == COMMAND
    assert sandbox.leave_network() == HOST
    sandbox.hide()
    assert sandbox.reveal(f"{tmp_path}/source") == f"{tmp_path}/source"
    sandbox.prepare_threads()
    assert not calls
