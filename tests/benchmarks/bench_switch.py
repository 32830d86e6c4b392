"""Speed of the switch's sums in one thread, against memcpy of the same bytes.

Run by `make bench`; the ratio is of the best of alternating passes.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from patchgen.extras.lab.switch import SOURCE

HERE = Path(__file__).parent
FILES = ("core.cc", "frame.cc", "sum.cc")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        program, code = str(Path(directory, "core")), Path(SOURCE, "src")
        sources = [str(HERE / "switch_core.cc"), *(str(code / name) for name in FILES)]
        flags = ["-std=c++17", "-O3", "-I", str(code)]
        subprocess.run(["g++", *flags, *sources, "-o", program], check=True)
        ended = subprocess.run([program], check=True, stdout=subprocess.PIPE)
    summed, copied = map(float, ended.stdout.split())
    rates = f"{summed:.1f} GB/s of packets, memcpy {copied:.1f} GB/s"
    print(f"\ncore of the switch, one thread: {rates}, ratio {summed / copied:.3f}")


if __name__ == "__main__":
    main()
