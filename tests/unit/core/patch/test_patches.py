from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from glob import glob
from pathlib import Path

import pytest
from support import miniature

import patchgen
from patchgen.core.patch import patches, pins, render, tree
from patchgen.errors import OptionsError
from patchgen.options import Options, resolve
from patchgen.system.git_objects import blob_id

PINS = pins.shipped()
OPTIONS = resolve({"dpdk": True, "mlx5": True, "switchml_home": "/a \udcff ü"}, {}, "/dev-root")


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.name)
def test_a_patch_is_read_back(pin: pins.Pin) -> None:
    made = patches.make(OPTIONS, pin)
    assert patches.read(made.content, PINS, "f") == made


def test_what_was_not_written_by_us_is_refused() -> None:
    content = patches.make(OPTIONS, PINS[0]).content
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
            patches.read(text, PINS, "f")
    with pytest.raises(OptionsError, match=r"written by version 0\.0"):
        patches.read(old, PINS[1:], "f")
    with pytest.raises(OptionsError, match="no pin here"):
        patches.read(content, PINS[1:], "f")


def blob_ids(root: Path, patch: patches.Patch) -> list[str | None]:
    """The blob ids of a patch's files in a tree; None for a file that is not there."""
    found = [root / file.path for file in patch.files]
    return [blob_id(path.read_bytes()) if path.exists() else None for path in found]


def test_a_tree_is_what_the_patch_says_before_and_after_it(tmp_path: Path) -> None:
    pin = miniature.write(tmp_path)
    for flags in ((), ("DPDK",)):
        patch = patches.make(Options(flags, "/opt/switchml", "/opt/grpc", "/opt/dpdk"), pin)
        tree.apply_patch(str(tmp_path), patch, (pin,))
        assert blob_ids(tmp_path, patch) == [file.after for file in patch.files]
    tree.revert(str(tmp_path), (pin,))
    assert blob_ids(tmp_path, patch) == [file.before for file in patch.files]


def test_a_patch_that_is_read_and_applied_is_rendered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = miniature.write(tmp_path)
    content = patches.make(OPTIONS, pin).content
    rendered: list[str] = []

    def hooks(of: pins.Pin) -> dict[str, bytes]:
        rendered.append(of.name)
        return own(of)

    own = render.hooks
    monkeypatch.setattr(render, "hooks", hooks)
    tree.apply_patch(str(tmp_path), patches.read(content, (pin,), "f"), (pin,))
    assert rendered == [pin.name]


def interpreters() -> list[str]:
    """The running Python, and all of pyenv that the package supports."""
    found = glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python"))
    supported = [p for p in found if int(p.split("/versions/3.")[1].split(".")[0]) >= 9]
    return [sys.executable, *sorted(set(supported))]


CODE = """
import os, sys
sys.path[:0] = sys.argv[1:]
from patchgen import options
from patchgen.core.patch import patches, pins
given = {"dpdk": True, "mlx5": True, "switchml_home": os.fsdecode(b"/a \\xff \\xc3\\xbc")}
made = options.resolve(given, {"SWITCHML_DEV_ROOT": "/dev-root"}, os.getcwd())
print(patches.make(made, pins.shipped()[0]).sha256)
"""


@pytest.mark.parametrize("python", interpreters())
def test_same_bytes_everywhere(python: str, tmp_path: Path, latin1: dict[str, str]) -> None:
    import jinja2
    import markupsafe

    expected = patches.make(OPTIONS, PINS[0]).sha256
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


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda content: content[:-9], "is cut short"),
        (lambda content: content[:120], "is cut short"),
        (lambda content: content.replace(b"\n", b"\r\n"), "has CRLF line ends"),
        (lambda content: b"\xef\xbb\xbf" + content, "begins with a byte order mark"),
        (
            lambda content: b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n")[:-9],
            "begins with a byte order mark and has CRLF line ends and is cut short",
        ),
    ],
)
def test_what_a_transfer_does_to_a_patch(damage: Callable[[bytes], bytes], problem: str) -> None:
    pin = pins.shipped()[0]
    content = damage(patches.make(resolve({}, {}, "/x"), pin).content)
    with pytest.raises(OptionsError) as caught:
        patches.read(content, [pin], "x")
    assert str(caught.value) == f"x: {problem}; write it again with switchml-patch generate"


def test_a_patch_of_a_pin_that_is_not_named() -> None:
    pin = pins.shipped()[0]
    content = patches.make(resolve({}, {}, "/x"), pin._replace(name="v0.0.1")).content
    with pytest.raises(OptionsError, match=r"no pin here; .*; name its pin file with --pytorch$"):
        patches.read(content, [pin], "x")
