from __future__ import annotations

import pytest

from patchgen import extras
from patchgen.errors import ToolError


def test_what_is_there_is_not_imported() -> None:
    extras.require("env", {"json": "json", "this": "the zen"})  # which prints when it is imported


def test_what_is_missing_is_named_with_the_command() -> None:
    needed = {"json": "json", "no_such_module": "no-such", "nor_this": "nor-this"}
    with pytest.raises(ToolError) as caught:
        extras.require("env", needed)
    command = "python3 -m pip install 'switchml-patch[env]'"
    assert str(caught.value) == f"no-such and nor-this: not installed; run: {command}"
    with pytest.raises(ToolError) as caught:
        extras.require("env", {"no_such_module": "it"}, where="with Python 3.10 or newer")
    assert str(caught.value) == f"it: not installed; with Python 3.10 or newer, run: {command}"
