"""What a graft has instead of torch's from PyTorch 2.8 on, with the headers of a current torch."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.torch import REPOSITORY, located


def test_works_come_first_and_nothing_is_recorded(torch: Path, tmp_path: Path) -> None:
    root, program = located(torch), tmp_path / "own"
    include = root / "include"
    subprocess.run(
        [
            "clang++", "-std=c++17", "-Wall", "-Wextra", "-Werror",
            "-isystem", include, "-isystem", include / "torch" / "csrc" / "api" / "include",
            "-include", REPOSITORY / "templates" / "graft" / "own.hpp",
            REPOSITORY / "tests" / "cpp" / "own.cpp", "-o", program,
            f"-L{root / 'lib'}", f"-Wl,-rpath,{root / 'lib'}", "-ltorch_cpu", "-lc10",
        ],
        check=True,
    )  # fmt: skip
    subprocess.run([program], check=True)
