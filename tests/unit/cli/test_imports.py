"""Commands import no more than they need."""

from __future__ import annotations

import sys
from pathlib import Path

from support.waiting import captured

HEAVY = {
    "difflib", "logging", "packaging.version", "patchgen.core.patch.state",
    "patchgen.system.native", "patchgen.system.process", "rich", "subprocess",
}  # fmt: skip
CODE = """
import sys
import click
given = {*sys.modules}
from patchgen.__main__ import main
sys.argv = ["switchml-patch", "generate", "--dpdk", "--mlx5"]
try:
    main()
except SystemExit as ended:
    assert not ended.code
print(*{*sys.modules} - given)
"""


def test_generate_imports_nothing_heavy(tmp_path: Path) -> None:
    done = captured([sys.executable, "-c", CODE], cwd=tmp_path, check=True)
    found = {*done.stdout.split()}
    assert "patchgen.core.patch.render" in found
    assert found & HEAVY == set()


def test_env_imports_nothing_heavy_before_it_runs() -> None:
    code = "import sys, patchgen.cli.env; print(*sys.modules)"
    loaded = captured([sys.executable, "-c", code], check=True).stdout.split()
    assert not {"rattler", "conda_lock", "yaml"} & {*loaded}
