"""What the delegate's search for inf, NaN and values too large costs, beside a copy of the tensor.

Run by `make bench`; the real library's fixed point needs the search, the simulator does not.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.delegate import compiled, render

SIZES = {"4 MB": 4_000_000, "25 MB": 25_000_000, "100 MB": 100_000_000}


def test_saturate(home: Path, tmp_path: Path) -> None:
    render(tmp_path)
    source = Path(__file__).parent / "saturate.cpp"
    program = compiled("saturate", [source], home, tmp_path, "g++", "-O2", "-Wno-unused-function")
    for name, size in SIZES.items():
        told = subprocess.check_output([program, str(size)], text=True)
        copy, search, alone = map(float, told.split())
        print(
            f"\nsearch of {name}: {search * 1e3:.2f} ms, {size / search / 1e9:.1f} GB/s, "
            f"ratio to a copy {search / copy:.2f}, on one thread {alone / copy:.2f}"
        )
