from __future__ import annotations

import dataclasses

import jinja2
import pytest

from patchgen.core.patch import pins, record, render
from patchgen.options import Options, resolve

PLAIN = resolve({"switchml_home": "/s"}, {}, "/w")
OTHERS = [
    resolve({"dpdk": True, "mlx5": True}, {}, "/w"),
    resolve({"rdma": True, "debug": True}, {}, "/w"),
    dataclasses.replace(PLAIN, switchml_home="/\udcff ü"),
    resolve({"dpdk": True, "mlx4": True, "dpdk_home": "/x", "grpc_home": "/y"}, {}, "/w"),
]
PINS = pytest.mark.parametrize("pin", pins.shipped(), ids=lambda pin: pin.name)


@PINS
@pytest.mark.parametrize("options", OTHERS)
def test_one_file_depends_on_the_options(pin: pins.Pin, options: Options) -> None:
    ours, theirs = render.new_files(PLAIN, pin), render.new_files(options, pin)
    assert {path for path in ours if ours[path] != theirs[path]} == {render.flags_path(pin)}
    assert tuple(sorted(ours)) == tuple(sorted(render.new_paths(pin)))


@PINS
@pytest.mark.parametrize("options", [PLAIN, *OTHERS])
def test_the_record_is_the_first_line_of_that_file(pin: pins.Pin, options: Options) -> None:
    content = render.flags_file(options, pin)
    assert content.startswith(record.PREFIX.encode())
    found = record.parse(content)
    assert found is not None
    assert found.options == options
    assert found.pin == pin.name


@PINS
def test_texts_are_whole_lines_without_delimiters(pin: pins.Pin) -> None:
    for content in [*render.new_files(PLAIN, pin).values(), *render.hooks(pin).values()]:
        assert content.endswith(b"\n")
        assert b"\r" not in content
        assert not any(mark in content for mark in (b"@{", b"}@", b"@%", b"%@", b"@#", b"#@"))


@PINS
def test_homes_pass_through_the_filter(pin: pins.Pin) -> None:
    options = dataclasses.replace(PLAIN, switchml_home="/a 'b' @c@")
    assert b"\"/a 'b' \\@c\\@\"" in render.flags_file(options, pin)


def test_an_undefined_name_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        render.text("patch/hooks/include.inc", pin={})


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
    assert render.quote_cxx(value) == literal
