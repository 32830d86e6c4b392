from __future__ import annotations

from pathlib import Path

import pytest
from support.variables import LISTS, find_unlisted

from patchgen.core import meanings
from patchgen.core.wheel.check import advice
from patchgen.errors import OptionsError
from patchgen.options import FLAGS, REFUSED_IN_HOMES, VARIABLES, Flag, resolve


def test_defaults_are_under_the_current_directory() -> None:
    options = resolve({"dpdk": True}, {}, "/dev-root")
    assert options.flags == ("DPDK",)
    assert options.builddir == options.switchml_home == "/dev-root/build"
    assert options.grpc_home == "/dev-root/third_party/grpc/build"
    assert options.dpdk_home == "/dev-root/third_party/dpdk/build"


@pytest.mark.parametrize(
    ("given", "environ", "expected"),
    [
        ({}, {}, "/cwd/build"),
        ({}, {"SWITCHML_DEV_ROOT": "/env"}, "/env/build"),
        ({"dev_root": "flag"}, {"SWITCHML_DEV_ROOT": "/env"}, "/cwd/flag/build"),
        ({}, {"SWITCHML_HOME": "/env"}, "/env"),
        ({}, {"SWITCHML_HOME": ""}, "/cwd/build"),
        ({"switchml_home": "/flag"}, {"SWITCHML_HOME": "/env"}, "/flag"),
        ({"switchml_home": "../up"}, {}, "/up"),
        ({"switchml_home": "a b/./c//d"}, {}, "/cwd/a b/c/d"),
    ],
)
def test_precedence_and_absolute_paths(
    given: dict[str, str], environ: dict[str, str], expected: str
) -> None:
    assert resolve(given, environ, "/cwd").switchml_home == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, True) for text in ("1", "true", "TRUE", "Yes", "on")),
        *((text, False) for text in ("0", "false", "No", "OFF", "")),
    ],
)
def test_booleans(text: str, *, value: bool) -> None:
    assert bool(resolve({}, {"DPDK": text}, "/").flags) == value
    assert bool(resolve({"dpdk": not value}, {"DPDK": text}, "/").flags) != value


@pytest.mark.parametrize("name", [v.name for v in VARIABLES if v.boolean])
@pytest.mark.parametrize("text", ["2", "ja", "y", " 1", "1 ", "é"])
def test_not_a_boolean(name: str, text: str) -> None:
    with pytest.raises(OptionsError, match=f"{name}=.*not a boolean") as caught:
        resolve({}, {name: text}, "/")
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"DPDK", "RDMA"}, ["--dpdk", "--rdma"]),
        ({"DPDK", "MLX4", "MLX5"}, ["--mlx4", "--mlx5"]),
        ({"MLX4", "MLX5"}, ["--mlx4", "--mlx5"]),
        ({"MLX5"}, ["--dpdk", "--mlx5"]),
        ({"MLX4"}, ["--dpdk", "--mlx4"]),
        ({"MLX5", "RDMA"}, ["--dpdk", "--mlx5"]),
    ],
)
def test_contradictions_say_what_to_change(flags: set[str], words: list[str]) -> None:
    with pytest.raises(OptionsError) as caught:
        resolve({}, dict.fromkeys(flags, "1"), "/")
    assert all(word in str(caught.value) for word in words)
    assert str(caught.value).count("\n") <= 1


@pytest.mark.parametrize("name", [v.name for v in VARIABLES if not v.boolean])
@pytest.mark.parametrize("path", ["/a\nb", "/a\0b", "/a\rb", "/a\tb", "/a\x7fb", "a\nb"])
def test_control_characters_are_refused(name: str, path: str) -> None:
    with pytest.raises(OptionsError, match=name.lower().replace("_", "-")) as caught:
        resolve({name.lower(): path}, {}, "/")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("character", REFUSED_IN_HOMES)
def test_what_cmake_cannot_take_is_refused_in_homes_only(character: str) -> None:
    path = f"/a{character}b"
    for name in ("switchml_home", "grpc_home", "dpdk_home"):
        with pytest.raises(OptionsError, match="cannot take") as caught:
            resolve({name: path}, {}, "/")
        assert name.upper() in str(caught.value)
    homes = {"switchml_home": "/s", "grpc_home": "/g", "dpdk_home": "/d"}
    assert resolve({"builddir": path, **homes}, {}, "/").builddir == path


def test_a_relative_path_without_a_current_directory() -> None:
    absolute = {v.field: f"/{v.field}" for v in VARIABLES if not v.boolean}
    assert resolve(absolute, {}, None).builddir == "/builddir"
    with pytest.raises(OptionsError, match=r"SWITCHML_HOME=x.*absolute"):
        resolve({**absolute, "switchml_home": None}, {"SWITCHML_HOME": "x"}, None)
    with pytest.raises(OptionsError, match="absolute"):
        resolve({}, {}, None)
    options = resolve({"dev_root": "/r", "rdma": True}, {}, None)
    assert options.grpc_home == "/r/third_party/grpc/build"


def test_a_home_without_use_makes_no_difference() -> None:
    here, there = (resolve({"switchml_home": "/s"}, {}, cwd) for cwd in ("/here", "/there"))
    assert here == there
    assert here.grpc_home == here.dpdk_home == ""
    rdma = resolve({"switchml_home": "/s", "rdma": True}, {}, "/here")
    assert (rdma.grpc_home, rdma.dpdk_home) == ("/here/third_party/grpc/build", "")


def test_a_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert resolve({}, {"SWITCHML_HOME": "~/switchml"}, "/").switchml_home == "/home/me/switchml"


@pytest.mark.parametrize("path", ["~", "~/x", "~nobody-of-this-name/x"])
def test_a_tilde_without_a_home_is_no_directory_of_that_name(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(OptionsError, match=f"^--builddir={path}: there is no such home; "):
        resolve({"builddir": path}, {}, "/")


def test_an_empty_path_on_the_command_line() -> None:
    with pytest.raises(OptionsError, match="--switchml-home is empty"):
        resolve({"switchml_home": ""}, {}, "/")


def test_lists_of_people_have_every_variable() -> None:
    root = Path(__file__).parents[2]
    assert find_unlisted(root) == {name: [] for name in LISTS}


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.field)
def test_a_missing_library_of_a_flag_has_advice(flag: Flag) -> None:
    """Names of packages beside Debian's, which may be empty, and a row of meanings.json."""
    assert {*flag.libraries} <= {*advice._ELSEWHERE}
    lines = [f"cannot find -l{name}" for name in flag.libraries]
    assert [line for line in lines if not meanings.find("build", line)] == []
