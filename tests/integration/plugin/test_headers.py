"""Headers of a torch that are in its prefix, as conda-forge has them, or are another torch's."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from support.graft import site_of, venv
from support.torch import GRAFT, located, switchml_patch

from patchgen.core.torch import Torch, probe_torch
from patchgen.errors import ToolError
from patchgen.extras.install.plugin import target

CONDA = """
import os, sys
def include_paths(*_):
    include = os.path.join(sys.prefix, "include")
    return [include, "/nowhere", os.path.join(include, "torch", "csrc", "api", "include")]
"""
"""What conda-forge's torch says of its headers."""
FLAGS = "flags = ['-std=c++20']\n"
DEBIAN = Path("/usr/include/ATen")
USER = """
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>
"""


@pytest.fixture
def python(torch: Path, tmp_path: Path) -> Path:
    """A torch of PyPI without headers, which are in no directory that it has."""
    made = venv(tmp_path / "prefix")
    real, own = located(torch), site_of(made) / "torch"
    (site_of(made) / "others.pth").write_text(f"{real.parent}\n")
    for path, left_out in ((".", "include"), ("utils", "cpp_extension.py")):
        (own / path).mkdir(exist_ok=True)
        for one in (real / path).iterdir():
            if one.name not in (left_out, "utils", "__pycache__"):
                (own / path / one.name).symlink_to(one)
    return made


def say(python: Path, text: str) -> None:
    (site_of(python) / "torch" / "utils" / "cpp_extension.py").write_text(text)


def move_headers(python: Path, headers: Path) -> Path:
    include = python.parents[1] / "include"
    for name in ("ATen", "c10", "pybind11", "torch"):
        (include / name).symlink_to(headers / name)
    return include


def probed(python: Path) -> Torch:
    return probe_torch(str(python), os.environ).require_gloo()


def test_headers_in_the_prefix_are_included(python: Path, torch: Path) -> None:
    """And no others: the compiler finds all that the plugin includes there."""
    include = move_headers(python, located(torch) / "include")
    say(python, FLAGS + CONDA)
    found = probed(python)
    assert found.include_dirs == [str(include), str(include / "torch/csrc/api/include")]
    standard = target.inspect(found, {}).standard
    command = [GRAFT["CXX"], "-x", "c++", f"-std=c++{standard}", "-M", "-"]
    for directory in (*found.include_dirs, found.python_include):
        command += ["-isystem", directory]
    done = subprocess.run(command, input=USER, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    used = [path for path in done.stdout.split() if re.search(r"/(ATen|c10|torch)/", path)]
    assert len(used) > 100
    assert [path for path in used if not path.startswith(f"{include}/")] == []


@pytest.mark.skipif(not DEBIAN.exists(), reason="apt-get install libtorch-dev")
@pytest.mark.parametrize("extensions", [FLAGS + CONDA, FLAGS])
def test_headers_of_another_torch_are_refused(python: Path, extensions: str) -> None:
    """Before anything is compiled, whether torch names their directory or it is the system's."""
    say(python, extensions)
    if CONDA in extensions:
        move_headers(python, DEBIAN.parent)
    done = switchml_patch("plugin", "build", "--torch", python)
    assert done.returncode == 4
    # Debian 12's and 13's.
    assert re.search(r"those of torch (1\.13|2\.6)\.0; install that torch again", done.stderr)
    assert "compiling" not in done.stderr


def test_another_torchs_headers_in_a_variable(torch: Path, tmp_path: Path) -> None:
    header = tmp_path / "torch/csrc/api/include/torch/version.h"
    header.parent.mkdir(parents=True)
    parts = zip(("MAJOR", "MINOR", "PATCH"), (1, 13, 0), strict=True)
    header.write_text("".join(f"#define TORCH_VERSION_{name} {value}\n" for name, value in parts))
    found = probed(torch)
    said = rf"the headers in {tmp_path} are those of torch 1\.13\.0; take it out of CPATH"
    for environ in ({"CPATH": f":{tmp_path}"}, {"CXXFLAGS": f"-O1 -I{tmp_path}"}):
        with pytest.raises(ToolError, match=said):
            target.inspect(found, environ)
    assert target.inspect(found, {"CPLUS_INCLUDE_PATH": str(tmp_path)}).methods
