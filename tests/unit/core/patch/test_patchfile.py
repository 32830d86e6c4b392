from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from glob import glob
from pathlib import Path

import pytest

import patchgen
from patchgen.core.patch import patchfile, pins
from patchgen.errors import OptionsError
from patchgen.options import resolve

PINS = pins.shipped()
OPTIONS = resolve({"dpdk": True, "mlx5": True, "switchml_home": "/a \udcff ü"}, {}, "/dev-root")


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.name)
def test_read_is_the_inverse_of_build(pin: pins.Pin) -> None:
    assert patchfile.read(patchfile.build(OPTIONS, pin), PINS, "f") == (OPTIONS, pin)


def test_what_was_not_written_by_build_is_refused() -> None:
    content = patchfile.build(OPTIONS, PINS[0])
    edited = content.replace(b"+#include", b"+#import", 1)
    assert edited != content
    old = content.replace(b'"version": "', b'"version": "0.', 1)
    for text, reason in [
        (b"", "not a patch written by"),
        (edited, "edited"),
        (content + b"\n", "edited"),
        (old, r"written by version 0\.0"),
    ]:
        with pytest.raises(OptionsError, match=reason):
            patchfile.read(text, PINS, "f")
    with pytest.raises(OptionsError, match=r"written by version 0\.0"):
        patchfile.read(old, PINS[1:], "f")
    with pytest.raises(OptionsError, match="no pin here"):
        patchfile.read(content, PINS[1:], "f")


def interpreters() -> list[str]:
    """The running Python, and all of pyenv that the package supports."""
    found = glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python"))
    supported = [p for p in found if int(p.split("/versions/3.")[1].split(".")[0]) >= 9]
    return [sys.executable, *sorted(set(supported))]


CODE = """
import hashlib, os, sys
sys.path[:0] = sys.argv[1:]
from patchgen import options
from patchgen.core.patch import patchfile, pins
given = {"dpdk": True, "mlx5": True, "switchml_home": os.fsdecode(b"/a \\xff \\xc3\\xbc")}
made = options.resolve(given, {"SWITCHML_DEV_ROOT": "/dev-root"}, os.getcwd())
print(hashlib.sha256(patchfile.build(made, pins.shipped()[0])).hexdigest())
"""


@pytest.mark.parametrize("python", interpreters())
def test_same_bytes_everywhere(python: str, tmp_path: Path, latin1: dict[str, str]) -> None:
    import jinja2
    import markupsafe

    expected = hashlib.sha256(patchfile.build(OPTIONS, PINS[0])).hexdigest()
    # Another Python has no jinja2 of its own: it takes the one of this environment.
    site = tmp_path / "site"
    site.mkdir()
    for module in (jinja2, markupsafe):
        source = os.path.dirname(str(module.__file__))
        (site / os.path.basename(source)).symlink_to(source)
    root = os.path.dirname(os.path.dirname(os.path.abspath(patchgen.__file__)))
    for number, environ in enumerate(
        [
            {"LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "1"},
            {"LC_ALL": "C.UTF-8", "USER": "x", "HOME": "/", "PYTHONHASHSEED": "2"},
            {**latin1, "PYTHONHASHSEED": "3"},
        ]
    ):
        cwd = tmp_path / str(number)
        cwd.mkdir()
        done = subprocess.run(
            [python, "-B", "-c", CODE, root, str(site)],
            cwd=cwd, env={"PATH": os.environ["PATH"], **environ}, capture_output=True, check=True,
        )  # fmt: skip
        assert done.stdout.decode().strip() == expected
