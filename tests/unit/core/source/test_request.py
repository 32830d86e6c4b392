"""patchgen.core.source.request: what may be left out of a tree, and what not."""

from __future__ import annotations

import pytest

from patchgen.core.patch import pins
from patchgen.core.source.repository import Repository, root
from patchgen.core.source.request import SourceRequest
from patchgen.errors import OptionsError

PIN = pins.find(pins.DEFAULT, pins.shipped())
TOP = root("/nowhere", PIN.commit)

BY_FILE = b"""
def build_deps():
    check_file(os.path.join(third_party_path, "gloo", "CMakeLists.txt"))
    check_file(os.path.join(third_party_path, 'onnx', 'third_party',
                            'benchmark', 'CMakeLists.txt'))
    check_file(os.path.join(third_party_path, name, "x"))
    check_file(os.path.join(somewhere_else, "fbjni"))
"""
BY_FOLDER = b"""
def check_submodules():
    folders = get_submodule_folders()
    check_for_files(os.path.join(third_party_path, 'fbgemm', 'third_party', 'asmjit'), ['x'])
"""


def submodule(path: str) -> Repository:
    return Repository("/nowhere", path, (path,), "/nowhere/.git", "0" * 40, "https://h/o/n")


PATHS = ("third_party/gloo", "third_party/onnx", "third_party/fbgemm", "android/fbjni")
CHILDREN = [submodule(path) for path in PATHS]


def refusal(path: str, setup: bytes = b"", parent: Repository = TOP) -> str:
    try:
        SourceRequest(PIN, without=(path,)).check(parent, CHILDREN if parent is TOP else [], setup)
    except OptionsError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("path", "setup", "needed"),
    [
        ("third_party/gloo", BY_FILE, "third_party/gloo/CMakeLists.txt"),
        ("third_party/onnx", BY_FILE, "third_party/onnx/third_party/benchmark/CMakeLists.txt"),
        ("third_party/onnx/third_party/benchmark", BY_FILE, "benchmark/CMakeLists.txt"),
        ("third_party/onnx/third_party/pybind11", BY_FILE, ""),
        ("third_party/fbgemm", BY_FILE, ""),
        ("android/fbjni", BY_FILE, ""),
        ("android/fbjni", BY_FOLDER, "android/fbjni"),
        ("third_party/fbgemm/third_party/asmjit", BY_FOLDER, "third_party/asmjit"),
        ("third_party/onnx/third_party/benchmark", BY_FOLDER, ""),
        ("third_party/gloo", b"", ""),
        ("third_party/gloo", b"print 'of another Python'", ""),
        ("third_party/gloo", b"\0", ""),
    ],
)
def test_what_a_setup_py_insists_on_stays(path: str, setup: bytes, needed: str) -> None:
    message = refusal(path, setup)
    assert bool(message) == bool(needed)
    if needed:
        assert message.startswith(f"--without {path}: ")
        assert message.endswith(needed)


def test_what_names_no_submodule_is_refused() -> None:
    for path in ("third_party", "third_party/glo", "third_party/gloo2", "README.md", "."):
        assert "no submodule; .gitmodules names them" in refusal(path)
    gloo = CHILDREN[0]
    assert refusal("third_party/gloo/none", parent=gloo)
    assert not refusal("third_party/gloo", parent=gloo)
    assert not refusal("third_party/onnx/third_party/pybind11", parent=gloo)


def test_what_is_inside_is_left_out_too() -> None:
    wanted = SourceRequest(PIN, without=("third_party/onnx",))
    assert wanted.leaves_out(submodule("third_party/onnx"))
    assert wanted.leaves_out(submodule("third_party/onnx/third_party/pybind11"))
    assert not wanted.leaves_out(submodule("third_party/onnx-tensorrt"))
