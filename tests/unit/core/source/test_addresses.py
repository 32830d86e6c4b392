"""patchgen.core.source.addresses: where repositories went, and what relative addresses mean."""

from __future__ import annotations

import re

import pytest

from patchgen.core.source import addresses


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
