"""Cost of quantization on the CPU: each step, compared with a copy of the same float32 tensor.

Prints the median ratio of alternating runs, and its spread.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from pairs import read_comparisons

from patchgen.core.patch import render

SIZES = {"25 MB": 25_000_000, "100 MB": 100_000_000}
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off")  # as the plugin is compiled


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        header = Path(directory, "base/quantize.hpp")
        header.parent.mkdir()
        header.write_text(render.text("delegate/src/base/quantize.hpp"), encoding="utf-8")
        program = Path(directory, "quantize")
        source = Path(__file__).with_name("quantize.cpp")
        subprocess.run(["g++", *FLAGS, f"-I{directory}", source, "-o", program], check=True)
        for name, size in SIZES.items():
            output = subprocess.check_output([program, str(size)], text=True)
            print(f"\nsteps with {name}, in ratio to a copy")
            for step, found in read_comparisons(output).items():
                bits, rounding, what = step.split("-")
                print(f"{f'{bits} bits, {rounding}, {what}':32}{found.describe_ratio()}")


if __name__ == "__main__":
    main()
