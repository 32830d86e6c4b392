"""Cost of quantization on the CPU: each step, compared with a copy of the same float32 tensor."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from patchgen.core.patch import render

SIZES = {"25 MB": 25_000_000, "100 MB": 100_000_000}
STEPS = ("scales", "packing", "unpacking")
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off")  # as the plugin is compiled


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        header = Path(directory, "base/SwitchMLQuantize.hpp")
        header.parent.mkdir()
        header.write_text(render.text("delegate/src/base/SwitchMLQuantize.hpp"), encoding="utf-8")
        program = Path(directory, "quantize")
        source = Path(__file__).with_name("quantize.cpp")
        subprocess.run(["g++", *FLAGS, f"-I{directory}", source, "-o", program], check=True)
        for name, size in SIZES.items():
            output = subprocess.check_output([program, str(size)], text=True).split()
            seconds = dict(zip(output[::2], map(float, output[1::2])))
            copy = seconds.pop("copy")
            print(f"\na copy of {name}: {copy * 1e3:.1f} ms; in ratio to it")
            print(f"{'':18}{'scales':>8}{'packing':>9}{'unpacking':>11}")
            for way in dict.fromkeys(step.rpartition("-")[0] for step in seconds):
                ratios = [seconds[f"{way}-{step}"] / copy for step in STEPS]
                bits, _, rounding = way.partition("-")
                label = f"{bits} bits, {rounding}"
                print(f"{label:18}{ratios[0]:8.2f}{ratios[1]:9.2f}{ratios[2]:11.2f}")


if __name__ == "__main__":
    main()
