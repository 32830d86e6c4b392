"""From which size on SwitchML is faster: ranks with other times find the same number."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.delegate import compile_alone, render
from support.simulator import SANITIZERS

SAID = """\
8 sizes, from 65536
8 sizes, from 65536
8 sizes, from none
8 sizes, from 256
3 sizes, from 256
1 sizes, from 256
"""


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_all_ranks_find_the_same_number(sanitizer: str, tmp_path: Path) -> None:
    render(tmp_path)
    program = compile_alone("crossover", tmp_path, sanitizer)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.stderr) == (SAID, "")
