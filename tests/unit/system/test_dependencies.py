from __future__ import annotations

import shlex
import sys
from importlib import metadata

import pytest

from patchgen.errors import ToolError
from patchgen.system import dependencies


def refusal(needed: dict[str, str], *, where: str = "") -> tuple[str, list[str]]:
    with pytest.raises(ToolError) as caught:
        dependencies.require(needed, where=where)
    text, _, command = str(caught.value).partition("run: ")
    return text, shlex.split(command)


def test_what_is_there_is_not_imported() -> None:
    dependencies.require({"json": "json", "this": "the zen"})  # which prints when it is imported


def test_what_is_missing_is_named_with_the_command() -> None:
    text, command = refusal({"json": "json", "no_such_module": "no-such", "nor_this": "Matplotlib"})
    assert text == "no-such and Matplotlib: not installed; "
    assert command == [sys.executable, "-m", "pip", "install", "no-such", "Matplotlib>=3.5"]
    text, _ = refusal({"no_such_module": "it"}, where="with Python 3.10 or newer")
    assert text == "it: not installed; with Python 3.10 or newer, "


def test_a_package_that_was_not_installed_has_no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> None:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", absent)
    assert refusal({"nor_this": "matplotlib"})[1][-1] == "matplotlib"
