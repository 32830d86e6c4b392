from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from patchgen.errors import ToolError
from patchgen.wheel import env


def test_what_is_not_installed_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "rattler" or None)
    with pytest.raises(ToolError, match=r"^conda-lock: not installed; .* pip install"):
        env.require()


def test_the_commands_load_nothing_heavy_before_they_run() -> None:
    code = "import sys, patchgen.cli.env; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"rattler", "conda_lock", "yaml"} & {*loaded}
