"""Cost of the delegate's search for inf, NaN and values too large, beside a copy of the tensor.

Run by `make bench`; the real library's fixed point needs the search, the simulator does not.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support.delegate import compiled, render

SIZES = {"4 MB": 4_000_000, "25 MB": 25_000_000, "100 MB": 100_000_000}
MOST = 4  # threads that the delegate works on a row with


def test_saturate(home: Path, tmp_path: Path) -> None:
    render(tmp_path)
    source = Path(__file__).parent / "saturate.cpp"
    program = compiled("saturate", [source], home, tmp_path, "g++", "-O3", "-Wno-unused-function")
    processors = len(os.sched_getaffinity(0))
    print(f"\n{'':12}{'copy':>10}{'search':>10}{'GB/s':>7}{'search/copy':>13}{'both/copy':>11}")
    for threads in sorted({1, 2, MOST} & {*range(1, processors + 1)}):
        for name, size in SIZES.items():
            told = subprocess.check_output([program, str(size), str(threads)], text=True)
            copy, search, both = map(float, told.split())
            print(
                f"{name:>7}{threads:3}{'':2}{copy * 1e3:7.2f} ms{search * 1e3:7.2f} ms"
                f"{size / search / 1e9:7.1f}{search / copy:13.2f}{both / copy:11.2f}"
            )
