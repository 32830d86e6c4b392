from __future__ import annotations

import ast

import pytest

from patchgen.core.patch import quoting

HOSTILE = [
    "",
    "/a b",
    'a"b',
    "a\\b",
    "${X}",
    "@X@",
    "a;b",
    "#x",
    "]]",
    "ü\udcff",
    "??/",
    "\\",
    "a\nb",
]


@pytest.mark.parametrize("value", [*HOSTILE, True, 3])
def test_python_literals(value: object) -> None:
    literal = quoting.py(value)
    assert literal.isascii()
    assert ast.literal_eval(literal) == value


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("/opt/x", '"/opt/x"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("ü1", '"\\303\\2741"'),
        ("\udcff7", '"\\3777"'),
        ("??/", '"\\?\\?/"'),
    ],
)
def test_cxx_literals(value: str, literal: str) -> None:
    assert quoting.cxx(value) == literal


@pytest.mark.parametrize(
    ("value", "argument"),
    [
        ("/opt/x", '"/opt/x"'),
        ("/a b", '"/a b"'),
        ("${X}@Y@", '"\\${X}\\@Y\\@"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
    ],
)
def test_cmake_arguments(value: str, argument: str) -> None:
    assert quoting.cmake(value) == argument
