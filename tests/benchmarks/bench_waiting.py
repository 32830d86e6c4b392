"""Delay until the delegate hears that a job has ended, and cost of its waiting.

Run by `make bench`; the same jobs are waited for by the library's own wait, which has no limit, and
by polling.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.delegate import compiled, render


def test_waiting(home: Path, tmp_path: Path) -> None:
    render(tmp_path)
    source = Path(__file__).parent / "waiting.cpp"
    program = compiled("waiting", [source], home, tmp_path, "g++", "-O2")
    told = subprocess.check_output([program, "200"], text=True)
    late, cpu = {}, {}
    for line in told.splitlines():
        way, *figures = line.split()
        late[way], cpu[way] = map(float, figures)
    for name, of in (("late", late), ("CPU time more than the library's wait", cpu)):
        base = cpu["library"] if of is cpu else 0.0
        delegate, polled = of["delegate"] - base, of["polled"] - base
        print(
            f"\nwaiting for a job, {name}: {delegate:.1f} us, polled {polled:.1f} us, "
            f"ratio {delegate / polled:.3f}"
        )
    print(f"the library's own wait is {late['library']:.1f} us late")
