from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from patchgen.core.wheel import env


def test_the_commands_load_nothing_heavy_before_they_run() -> None:
    code = "import sys, patchgen.cli.env; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"rattler", "conda_lock", "yaml"} & {*loaded}


def test_an_environment_file_of_the_directory_comes_before_the_tools_own(tmp_path: Path) -> None:
    own = f"{env.SHIPPED}/environment.yml"
    assert env.locate("environment.yml", str(tmp_path)) == own
    (tmp_path / "environment.yml").touch()
    assert env.locate("environment.yml", str(tmp_path)) == f"{tmp_path}/environment.yml"
    for name in ("other.yml", "./environment-cpu.yml", "/x/environment.yml"):
        assert not env.locate(name, str(tmp_path)).startswith(env.SHIPPED)
