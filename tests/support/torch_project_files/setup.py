"""Builds a package torch the way PyTorch's setup.py does: CMake and Ninja, then the extension.

Of the package, this project compiles libtorch_cpu.so and the extension, and has a few Python files.
The rest is Debian's python3-torch, where that is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py
from tools.generate_torch_version import version

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build"
PACKAGE = ROOT / "torch"
DEBIAN_TORCH = Path("/usr/lib/python3/dist-packages/torch")
MADE = ("lib/*.so", "bin/*")
# Each finds the rest of itself where Debian has it: compiled already, and in no wheel.
WITH_DEBIANS = {"torch": DEBIAN_TORCH, "torch/distributed": DEBIAN_TORCH / "distributed"}


def build_type() -> str:
    if os.environ.get("DEBUG", "").upper() in {"1", "ON", "YES", "TRUE", "Y"}:
        return "Debug"
    return os.environ.get("CMAKE_BUILD_TYPE", "Release")


def configure() -> None:
    if (BUILD / "CMakeCache.txt").exists() and (BUILD / "build.ninja").exists():
        return
    defined = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("BUILD_", "USE_", "CMAKE_"))
    }
    defined |= {
        "CMAKE_BUILD_TYPE": build_type(),
        "CMAKE_INSTALL_PREFIX": str(PACKAGE),
        "DEBIAN_TORCH": str(DEBIAN_TORCH),
        "PYTHON_EXECUTABLE": sys.executable,
        "TORCH_BUILD_VERSION": version(),
    }
    BUILD.mkdir(exist_ok=True)
    options = [f"-D{name}={value}" for name, value in sorted(defined.items())]
    run("cmake", "-GNinja", *options, str(ROOT))


def build_libraries() -> None:
    configure()
    jobs = os.environ.get("MAX_JOBS", str(os.cpu_count()))
    run("cmake", "--build", ".", "--target", "install", "--config", build_type(), "--", "-j", jobs)


def run(*command: str) -> None:
    sys.stdout.write(" ".join(command) + "\n")
    sys.stdout.flush()
    code = subprocess.run(command, cwd=BUILD, check=False).returncode
    if code != 0:
        sys.exit(f"{' '.join(command[:2])} failed with return code {code}")


class BuildPython(build_py):
    """Our Python files, with what CMake installed."""

    def run(self) -> None:
        target = Path(self.build_lib) / "torch"
        for pattern in ("**/*.py", *MADE):
            for path in sorted(PACKAGE.glob(pattern)):
                copy = target / path.relative_to(PACKAGE)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
        for name, debians in WITH_DEBIANS.items():
            module = Path(self.build_lib) / name / "__init__.py"
            module.write_text(f"__path__.append({str(debians)!r})\n{module.read_text()}")


build_libraries()
setup(
    name="torch",
    version=version(),
    description="A small project of PyTorch's shape",
    packages=["torch"],
    ext_modules=[
        Extension(
            "torch._C",
            ["torch/csrc/stub.cpp"],
            library_dirs=[str(PACKAGE / "lib")],
            # In this order: symbols are ours first. It needs none of ours itself.
            extra_link_args=[
                *(["-fuse-ld=gold"] if shutil.which("ld.gold") else []),  # quicker
                "-Wl,--no-as-needed",
                "-ltorch_cpu",
                "-ltorch_python",
                "-Wl,-rpath,$ORIGIN/lib",
            ],
        )
    ],
    cmdclass={"build_py": BuildPython},
    install_requires=["numpy", "typing_extensions"],
    zip_safe=False,
)
