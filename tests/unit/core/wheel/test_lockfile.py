"""A conda-lock.yml as conda-lock writes it, read into packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchgen.errors import OptionsError

lockfile = pytest.importorskip(
    "patchgen.core.wheel.conda.lockfile", reason="comes with the extra `env`"
)


def entry(name: str, *needs: str, **other: object) -> dict[str, object]:
    return {
        "name": name, "version": "1.0", "manager": "conda", "platform": "linux-64",
        "dependencies": dict.fromkeys(needs, ""), "hash": {"md5": "m", "sha256": "s"},
        "url": f"https://example.org/linux-64/{name}-1.0-h_0.conda", **other,
    }  # fmt: skip


def read(directory: Path, *entries: dict[str, object], **metadata: object) -> Any:
    meta = {"content_hash": {}, "channels": [], "platforms": ["linux-64"], "sources": []}
    data = {"version": 1, "metadata": {**meta, **metadata}, "package": entries}
    (directory / "lock.yml").write_text(json.dumps(data))
    return lockfile.read(str(directory / "lock.yml"))


def test_dependencies_come_first_also_in_a_circle(tmp_path: Path) -> None:
    found = read(tmp_path, entry("a", "c", "__glibc"), entry("b", "a"), entry("c", "b", "d"),
                 entry("d"))  # fmt: skip
    names = [package.name for package in found.packages]
    assert sorted(names) == ["a", "b", "c", "d"]
    assert names.index("d") < names.index("c")
    assert names.index("c") < names.index("a")


def test_another_archive_of_the_same_name_is_another_identity(tmp_path: Path) -> None:
    one, other = (
        read(tmp_path, entry("a", hash={"md5": "m", "sha256": digest})) for digest in ("s", "t")
    )
    assert one.identity != other.identity
    assert one.identity == read(tmp_path, entry("a")).identity


def test_another_link_script_is_another_identity(tmp_path: Path) -> None:
    found = {
        read(tmp_path, entry("a"), custom_metadata={"link_scripts": scripts}).identity
        for scripts in ("", "a", "a b", "b a")
    }
    assert len(found) == 3


def test_a_package_of_two_categories_is_one(tmp_path: Path) -> None:
    (package,) = read(tmp_path, entry("a", category="main"), entry("a", category="dev")).packages
    assert (package.version, package.build) == ("1.0", "h_0")  # by the name of its archive


def test_scripts_and_files_are_words_of_a_shell(tmp_path: Path) -> None:
    custom = {"link_scripts": "a b", "required_files": "bin/a 'lib/b c'"}
    found = read(tmp_path, entry("a"), custom_metadata=custom)
    assert found.link_scripts == ("a", "b")
    assert found.required_files == ("bin/a", "lib/b c")
    with pytest.raises(OptionsError, match="required_files: No closing quotation"):
        read(tmp_path, entry("a"), custom_metadata={"required_files": "'a"})


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"version": 3.1}, "version: not of type str"),
        ({"manager": "pip"}, "a: comes from pip, not from conda"),
        ({"hash": {"md5": "m"}}, "a: has no sha256"),
        ({"hash": {"sha256": "s"}}, "md5: missing"),
        ({"hash": "s"}, "hash: not of type dict"),
        ({"url": None}, "url: missing"),
    ],
)
def test_a_value_that_cannot_be_used(
    tmp_path: Path, wrong: dict[str, object], problem: str
) -> None:
    with pytest.raises(OptionsError, match=problem):
        read(tmp_path, entry("a", **wrong))
