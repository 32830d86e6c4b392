from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

if sys.version_info < (3, 10):
    pytest.skip("conda-lock and py-rattler need Python 3.10", allow_module_level=True)

import rattler

from patchgen.core.wheel.conda import spec
from patchgen.core.wheel.conda.solve import depends
from patchgen.errors import FileError, OptionsError

GOOD = """
name: x
channels: [one, nodefaults, two]
dependencies: [a, b>=1]
x-switchml:
  link_scripts: [a]
  required_files: [bin/a, lib/b c]
  virtual_packages: {cuda: "10.1", __glibc: "2.28"}
"""


def load(directory: Path, text: str) -> spec.EnvironmentFile:
    path = directory / "environment.yml"
    path.write_text(text)
    return spec.load(str(path))


def test_all_that_a_file_says_is_read(tmp_path: Path) -> None:
    found = load(tmp_path, GOOD)
    assert found.channels == ("one", "two")
    assert found.dependencies == ("a", "b>=1")
    assert found.link_scripts == ("a",)
    assert found.required_files == ("bin/a", "lib/b c")
    assert found.virtual_packages == (("cuda", "10.1"), ("glibc", "2.28"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "holds no keys"),
        ("- a", "holds no keys"),
        ("a: [", "no YAML"),
        ("channels: [c]", "dependencies: there are none"),
        ("dependencies: []", "dependencies: there are none"),
        ("dependencies: a", "must be a list of strings"),
        ("dependencies: [1.5]", "must be a list of strings"),
        ("dependencies: [a, {pip: [b]}]", "pip: only conda packages can be locked"),
        ("dependencies: [a]\nvariables: {A: b}", "variables: unknown"),
        ("dependencies: [a]\nx-switchml: [b]", "x-switchml: may hold"),
        ("dependencies: [a]\nx-switchml: {scripts: [b]}", "x-switchml: may hold"),
        ("dependencies: [a]\nx-switchml: {link_scripts: b}", "link_scripts: must be a list"),
        ("dependencies: [a]\nx-switchml: {required_files: b}", "required_files: must be a list"),
        ("dependencies: [a]\nx-switchml: {required_files: [1]}", "required_files: must be a list"),
        ("dependencies: [a]\nx-switchml: {virtual_packages: {cuda: 10.1}}", "in quotes"),
    ],
)
def test_what_cannot_be_locked_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(OptionsError, match=named):
        load(tmp_path, text)


@pytest.mark.parametrize(
    "file",
    ["/bin/nvcc", "../nvcc", "bin/../../nvcc", "", ".", "./nvcc", "bin//nvcc", "bin/", "a\0b"],
)
def test_a_required_file_is_a_path_in_the_prefix(tmp_path: Path, file: str) -> None:
    own = json.dumps({"required_files": ["bin/a", file]})
    with pytest.raises(OptionsError, match="write a path in the prefix") as caught:
        load(tmp_path, f"dependencies: [a]\nx-switchml: {own}")
    assert repr(file) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="nowhere"):
        spec.load(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("name: x", "name: y  # and a comment", True),
        ("b>=1", "b>=2", False),
        ("one, nodefaults, two", "two, one", False),
        ("link_scripts: [a]", "link_scripts: []", False),
        ("bin/a, ", "", False),
        ('"10.1"', '"10.2"', False),
    ],
)
def test_the_content_hash_follows_what_a_solution_depends_on(
    tmp_path: Path, before: str, after: str, *, same: bool
) -> None:
    first = load(tmp_path, GOOD).content_hash("linux-64")
    assert before in GOOD
    second = load(tmp_path, GOOD.replace(before, after)).content_hash("linux-64")
    assert (first == second) is same


def test_the_content_hash_follows_the_platform(tmp_path: Path) -> None:
    found = load(tmp_path, GOOD)
    assert found.content_hash("linux-64") != found.content_hash("linux-aarch64")


def test_virtual_packages_come_from_file_and_default_in_this_order(tmp_path: Path) -> None:
    found = load(tmp_path, GOOD)
    assert found.virtual("linux-64") == {
        "archspec": "1=x86_64",
        "cuda": "10.1",
        "glibc": "2.28",
        "linux": "3.10",
        "unix": "0",
    }
    assert found.virtual("linux-aarch64")["archspec"] == "1=aarch64"
    assert "cuda" not in load(tmp_path, GOOD.replace('"10.1"', '""')).virtual("linux-64")


@pytest.mark.parametrize("platform", ["win-64", "linux", "osx-arm64", "linux-64 "])
def test_only_linux_is_built_for(tmp_path: Path, platform: str) -> None:
    with pytest.raises(OptionsError, match="not of Linux"):
        load(tmp_path, GOOD).virtual(platform)


@pytest.mark.parametrize(
    ("text", "name", "locations"),
    [
        ("conda-forge", "conda-forge", ("conda-forge",)),
        ("defaults", "defaults", ("pkgs/main", "pkgs/r")),
        ("file:///a b/c/", "file:///a b/c/", ("file:///a b/c",)),
        ("conda-forge=https://x.test/cf?a=b", "conda-forge", ("https://x.test/cf?a=b",)),
        ("https://x.test/t=1", "https://x.test/t=1", ("https://x.test/t=1",)),
    ],
)
def test_a_channel_has_a_name_and_places(text: str, name: str, locations: tuple[str, ...]) -> None:
    assert spec.parse_channel(text) == spec.Channel(name, locations)


@pytest.mark.parametrize("text", ["https://me:secret@x.test/c", "c=https://me:secret@x.test/c"])
def test_a_password_never_gets_into_a_lock(text: str) -> None:
    with pytest.raises(OptionsError, match="user name or password") as caught:
        spec.parse_channel(text)
    assert "secret" not in str(caught.value)


def test_dependencies_on_one_package_are_joined_and_keep_their_build() -> None:
    found = depends([
        "a", "b >=1,<2", "c 1.0 h0_0", "b !=1.5", "abi 3.7.* *_cp37m", "abi 3.7.*", "d>=1",
        "e[build=mkl]",
    ])  # fmt: skip
    assert found == {
        "a": "", "b": ">=1,<2,!=1.5", "c": "==1.0 h0_0", "abi": "3.7.* *_cp37m", "d": ">=1",
        "e": "* mkl",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["environment.yml", "environment-cpu.yml"])
def test_the_shipped_files_are_read_by_us_and_by_rattler(name: str) -> None:
    found = spec.load(str(Path(__file__).parents[4] / name))
    names = {rattler.MatchSpec(text, strict=False).name.normalized for text in found.dependencies}
    assert {"python", "cmake", "setuptools"} <= names
    assert set(found.link_scripts) <= names
