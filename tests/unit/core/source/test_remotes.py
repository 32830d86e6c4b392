"""patchgen.core.source: where a repository is looked for, in which order, and what it is called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchgen.core.source import addresses, remotes
from patchgen.core.source.remotes import Remotes
from patchgen.errors import OptionsError

TBB = "https://github.com/01org/tbb"


def list_remotes(*mirrors: str, path: str = "third_party/tbb", url: str = TBB) -> list[str]:
    return [*Remotes(mirrors).find(url, path, (path,))]


def clone(path: Path) -> Path:
    (path / "objects").mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n")
    return path


def test_a_base_url_is_tried_with_all_names_before_the_network() -> None:
    tried = list_remotes("https://m/git")
    assert tried[:2] == ["https://m/git/01org/tbb.git", "https://m/git/tbb.git"]
    assert "https://m/git/uxlfoundation/oneTBB.git" in tried
    assert tried.index(TBB) > tried.index("https://m/git/oneTBB.git")


@pytest.mark.parametrize(
    "name",
    [
        "01org+tbb", "01org+tbb.git", "01org/tbb", "01org/tbb.git", "tbb", "tbb.git", "TBB",
        "uxlfoundation+oneTBB", "uxlfoundation/onetbb.git", "oneTBB.git", "somebody+tbb",
        "somebody/oneTBB", "01org+tbb/repo", "UXLFoundation+oneTBB/a.git",
    ],
)  # fmt: skip
def test_a_clone_in_a_directory(tmp_path: Path, name: str) -> None:
    remote = clone(tmp_path / name)
    clone(tmp_path / "another+one")
    clone(tmp_path / "tbb-of-another-name")
    assert list_remotes(str(tmp_path))[:2] == [str(remote), TBB]


def test_a_clone_may_have_the_name_of_the_submodule(tmp_path: Path) -> None:
    six = clone(tmp_path / "python-six")
    remotes = list_remotes(
        str(tmp_path), path="third_party/python-six", url="https://h/benjaminp/six"
    )
    assert remotes[0] == str(six)


def test_the_right_owner_comes_first(tmp_path: Path) -> None:
    for name in ("aaa+tbb", "tbb", "01org+tbb", "uxlfoundation/oneTBB"):
        clone(tmp_path / name)
    names = [remote[len(f"{tmp_path}/") :] for remote in list_remotes(str(tmp_path))[:4]]
    assert names == ["01org+tbb", "uxlfoundation/oneTBB", "tbb", "aaa+tbb"]


def test_what_is_no_clone_is_none(tmp_path: Path) -> None:
    (tmp_path / "tbb").mkdir()
    (tmp_path / "tbb.git").write_text("text")
    (tmp_path / "01org+tbb").symlink_to(tmp_path / "nothing")
    assert list_remotes(str(tmp_path))[0] == TBB


def test_a_reference_is_a_tree_or_what_git_keeps_of_one(tmp_path: Path) -> None:
    kept = clone(tmp_path / "a/.git/modules/third_party/tbb")
    bare = clone(tmp_path / "b/modules/third_party/tbb")
    there = clone(tmp_path / "c/third_party/tbb/.git").parent
    clone(tmp_path / "c/.git/modules/third_party/tbb")
    references = [str(tmp_path / name) for name in "abc"]
    of = Remotes(references=references).find(TBB, "third_party/tbb", ("third_party/tbb",))
    assert [*of][:3] == [str(kept), str(bare), str(there)]


def test_mirrors_without_the_repository(tmp_path: Path) -> None:
    for name in ("has", "lacks"):
        (tmp_path / name).mkdir()
    clone(tmp_path / "has" / "tbb")
    clone(tmp_path / "lacks" / "six")
    mirrors = [str(tmp_path / "has"), str(tmp_path / "lacks"), "https://m/git"]
    lines = [*Remotes(mirrors=mirrors).list_lacking(TBB, "third_party/tbb")]
    words = "--mirror has no clone named tbb or oneTBB, with its owner or without"
    assert lines == [f"{tmp_path}/lacks: {words}"]


def test_what_cannot_be_a_mirror_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    for path in (tmp_path / "text", tmp_path / "nothing"):
        with pytest.raises(OptionsError, match=re.escape(str(path))):
            remotes.parse_mirror(str(path))
    with pytest.raises(OptionsError, match="not a git repository"):
        remotes.parse_reference(str(tmp_path))
    assert remotes.parse_mirror("https://m/git/") == "https://m/git"
    assert remotes.parse_mirror("git@host:base") == "git@host:base"


# ---- where repositories went, and what relative addresses mean


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
        ("../n", "ssh://git@h:22/o/p", "ssh://git@h:22/o/n"),
        ("../n", "/srv/o/p", "/srv/o/n"),
        ("/srv/n", "https://h/o/p", "/srv/n"),
    ],
)
def test_resolved(url: str, parent: str, expected: str) -> None:
    assert addresses.resolve(url, parent) == expected


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
    first, *later = addresses.list_addresses("https://github.com/PyTorch/fbgemm")
    assert first == "https://github.com/PyTorch/fbgemm"
    assert later == ["https://github.com/pytorch/FBGEMM.git"]
    assert addresses.list_addresses("https://h/o/n") == ("https://h/o/n",)


def test_every_renamed_repository_is_written_as_it_is_looked_up() -> None:
    for old, new in addresses.RENAMED.items():
        assert old == old.lower()
        assert new
        for one in new:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+|https://[\w./-]+\.git", one)
