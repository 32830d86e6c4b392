from __future__ import annotations

from typing import Any

import pytest

from patchgen.errors import OptionsError
from patchgen.patch import layouts

FIRST: dict[str, Any] = {
    "source_dir": "torch/lib",
    "target": "c10d",
    "include_prefix": "c10d",
    "options_access": "options.",
    "cxx_standard": 14,
    "cmake_indent": "",
    "cmake_source_dir": "here",
    "anchors": {
        "join": {"head": "join\n", "tail": "me\n"},
        "cmake": {"file": "CMakeLists.txt", "head": "target\n"},
    },
}


def test_an_anchor_without_a_file_is_in_the_process_group() -> None:
    join, cmake = layouts.resolve({"first": FIRST})["first"].anchors
    assert join == layouts.Anchor("join", "torch/lib/ProcessGroupGloo.cpp", "join\n", "me\n")
    assert cmake == layouts.Anchor("cmake", "CMakeLists.txt", "target\n")


def test_a_layout_like_another_has_only_what_differs() -> None:
    second = {
        "like": "first",
        "source_dir": "torch/csrc",
        "anchors": {"join": {"tail": "us\n"}, "leave": {"head": "leave\n"}},
    }
    third = {"like": "second", "cxx_standard": 17, "anchors": {"cmake": {"head": "other\n"}}}
    resolved = layouts.resolve({"first": FIRST, "second": second, "third": third})
    assert resolved["first"] == layouts.resolve({"first": FIRST})["first"], "is as it was"
    layout = resolved["third"]
    assert (layout.name, layout.target, layout.cxx_standard) == ("third", "c10d", 17)
    assert layout.anchors == (
        layouts.Anchor("join", "torch/csrc/ProcessGroupGloo.cpp", "join\n", "us\n"),
        layouts.Anchor("cmake", "CMakeLists.txt", "other\n"),
        layouts.Anchor("leave", "torch/csrc/ProcessGroupGloo.cpp", "leave\n"),
    )


@pytest.mark.parametrize("order", [["second", "first"], ["second"]])
def test_a_layout_is_like_one_that_stands_before_it(order: list[str]) -> None:
    known = {"first": FIRST, "second": {"like": "first"}}
    with pytest.raises(OptionsError, match="second is like first, which does not stand before it"):
        layouts.resolve({name: known[name] for name in order})


def test_an_unknown_layout_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionsError, match=r"no such layout; known are c10d-lib, c10d-lib-1\.9"):
        layouts.find("c10d")
