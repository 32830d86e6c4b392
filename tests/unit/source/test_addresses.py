"""patchgen.source.addresses: which places are looked at for a repository."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from patchgen.errors import OptionsError
from patchgen.source import addresses
from patchgen.source.addresses import Source
from patchgen.source.repository import Repository

if TYPE_CHECKING:
    from pathlib import Path

TBB = Repository("/t", "third_party/tbb", ("tbb",), "/t/.git/modules/tbb", "0" * 40,
                 "https://github.com/01org/tbb")  # fmt: skip


@pytest.mark.parametrize(
    ("url", "parent", "expected"),
    [
        ("https://h/o/n", "https://h/p/q", "https://h/o/n"),
        ("../n.git", "https://h/o/p.git", "https://h/o/n.git"),
        ("../n.git", "https://h/o/p/", "https://h/o/n.git"),
        ("../../x/n", "https://h/o/p", "https://h/x/n"),
        ("./n", "https://h/o/p", "https://h/o/p/n"),
        (".././n", "https://h/o/p", "https://h/o/n"),
        ("../n", "git@h:o/p", "git@h:o/n"),
        ("/srv/n", "https://h/o/p", "/srv/n"),
    ],
)
def test_relative(url: str, parent: str, expected: str) -> None:
    assert addresses.relative(url, parent) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://github.com/o/n.git", ("o", "n")),
        ("https://github.com/o/n/", ("o", "n")),
        ("git@github.com:o/n.git", ("o", "n")),
        ("ssh://git@h:22/o/n", ("o", "n")),
        ("/n", ("", "n")),
        ("", ("", "")),
    ],
)
def test_owner_and_name(url: str, expected: tuple[str, str]) -> None:
    assert addresses.owner_and_name(url) == expected


def test_the_recorded_address_comes_first_and_case_does_not_count() -> None:
    first, *later = addresses.known("https://github.com/PyTorch/fbgemm")
    assert first == "https://github.com/PyTorch/fbgemm"
    assert later == ["https://github.com/pytorch/FBGEMM.git"]
    assert addresses.known("https://h/o/n") == ("https://h/o/n",)


def test_every_renamed_repository_is_written_as_it_is_looked_up() -> None:
    for old, new in addresses.RENAMED.items():
        assert old == old.lower()
        assert new
        for one in new:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+|https://[\w./-]+\.git", one)


def test_a_base_url_is_tried_with_all_names_before_the_network() -> None:
    found = [source.address for source in addresses.sources(TBB, ["https://m/git"], [])]
    assert found[:2] == ["https://m/git/01org/tbb.git", "https://m/git/tbb.git"]
    assert "https://m/git/uxlfoundation/oneTBB.git" in found
    assert found.index("https://github.com/01org/tbb") > found.index("https://m/git/oneTBB.git")


@pytest.mark.parametrize("name", ["01org+tbb", "01org/tbb.git", "tbb", "oneTBB.git"])
def test_a_clone_in_a_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "objects").mkdir(parents=True)
    (tmp_path / name / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "tbb.bundle").write_bytes(b"# v2 git bundle\n")
    found = list(addresses.sources(TBB, [str(tmp_path)], []))
    assert Source(str(tmp_path / name)) in found
    assert Source(str(tmp_path / "tbb.bundle"), bundle=True) in found
    assert found[-1].address.startswith("https://")


def test_a_bundle_is_for_the_repository_of_its_name(tmp_path: Path) -> None:
    for name, wanted in (("tbb.bundle", True), ("other.bundle", False)):
        path = tmp_path / name
        path.write_bytes(b"# v2 git bundle\n")
        assert (Source(str(path), bundle=True) in addresses.sources(TBB, [str(path)], [])) == wanted


def test_what_cannot_be_a_mirror_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    for path in (tmp_path / "text", tmp_path / "nothing"):
        with pytest.raises(OptionsError, match=re.escape(str(path))):
            addresses.checked(str(path))
    with pytest.raises(OptionsError, match="not a git repository"):
        addresses.checked_reference(str(tmp_path))
    assert addresses.checked("https://m/git/") == "https://m/git"
    assert addresses.checked("git@host:base") == "git@host:base"
