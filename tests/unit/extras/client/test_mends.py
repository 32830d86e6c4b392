from __future__ import annotations

from dataclasses import replace

import pytest

from patchgen.errors import OptionsError, PatchgenError, TreeError
from patchgen.extras.client import mends
from patchgen.extras.client.mends import Edit, FileMend, Mend
from patchgen.system.objects import blob_id

BEFORE = b"one\ntwo three\nfour"
TEXT = f"""\
A title, in one sentence.

file a/b.cc
blob {blob_id(BEFORE)}
at 2:0 to 2:3
> 2
at 3:0
> // before four
>
at 1:3 to 2:0
>  and

new a/c.h
> first
>
>   third
>
"""
MEND = mends.parse("some-id", TEXT)


def one(identity: str, start: tuple[int, int], end: tuple[int, int], text: str) -> Mend:
    return Mend(identity, "", (FileMend("a/b.cc", blob_id(BEFORE), (Edit(start, end, text),)),))


def test_what_a_mend_file_says() -> None:
    assert (MEND.id, MEND.title) == ("some-id", "A title, in one sentence.")
    assert mends.list_files([MEND]) == {"a/b.cc": blob_id(BEFORE), "a/c.h": None}
    assert mends.apply([MEND], {"a/b.cc": BEFORE, "other": b""}) == {
        "a/b.cc": b"one and2 three\n// before four\nfour",
        "a/c.h": b"first\n\n  third\n",
    }


@pytest.mark.parametrize(
    "line", ["upstream's own line", "at 1", "at 1:2:3", "blob 1", "> text", "at 1:0"]
)
def test_a_line_that_means_nothing(line: str) -> None:
    with pytest.raises(ValueError, match=r"some-id\.mend: line 2: "):
        mends.parse("some-id", f"Title.\n{line}\n")


def test_the_order_of_mends_makes_no_difference() -> None:
    first, second = one("a", (2, 3), (2, 3), "A"), one("b", (2, 3), (2, 3), "B")
    third = one("c", (2, 3), (2, 9), "")
    for given in ([first, second, third], [third, second, first]):
        assert mends.apply(given, {"a/b.cc": BEFORE}) == {"a/b.cc": b"one\ntwoAB\nfour"}


def test_two_mends_of_one_place() -> None:
    given = [one("a", (2, 0), (2, 5), "A"), one("b", (2, 3), (2, 3), "B")]
    with pytest.raises(PatchgenError, match=r"^a/b\.cc: two mends change line 2$"):
        mends.apply(given, {"a/b.cc": BEFORE})


def test_two_mends_that_bring_one_file() -> None:
    other = replace(MEND, id="other")
    with pytest.raises(PatchgenError, match=r"a/c\.h is another file in another mend"):
        mends.apply([MEND, other], {"a/b.cc": BEFORE})


@pytest.mark.parametrize("sources", [{"a/b.cc": BEFORE + b"\n"}, {}])
def test_another_source(sources: dict[str, bytes]) -> None:
    with pytest.raises(TreeError, match=r"^a/b\.cc: not the file of commit b5c74a04fa66$"):
        mends.apply([MEND], sources)


def test_a_mend_is_left_out_by_its_id() -> None:
    known = (MEND, replace(MEND, id="other"))
    assert mends.choose(["other"], known) == (MEND,)
    with pytest.raises(OptionsError, match="heap: no such mend; there are some-id, other"):
        mends.choose(["heap"], known)


def test_the_mends_that_are_shipped() -> None:
    shipped = mends.read_shipped()
    assert [mend.id for mend in shipped] == [
        "back-off", "completions", "connection", "cores", "counts", "dpdk-names", "duplicates",
        "fast-free", "first-timeout", "flow-rules", "foreign-frames", "glog", "half-batch", "heap",
        "job-sizes", "late-answers", "refused", "resent-id", "restart", "rounding",
        "stale-timers", "start-waits", "stop",
    ]  # fmt: skip
    assert all(mend.title.endswith(".") and len(mend.title) < 200 for mend in shipped)
    touched = mends.list_files(shipped)
    assert {*touched} == {*mends.read_images()}
    assert all(path.startswith("dev_root/client_lib/src/") for path in touched)


def test_the_mends_of_the_controller() -> None:
    shipped = mends.read_shipped(mends.CONTROLLER)
    assert [mend.id for mend in shipped] == ["dead-workers", "silent-workers"]
    assert not {mend.id for mend in shipped} & {mend.id for mend in mends.read_shipped()}
    assert {*mends.list_files(shipped)} == {*mends.read_images(mends.CONTROLLER)}


@pytest.mark.parametrize("part", [mends.LIBRARY, mends.CONTROLLER])
def test_all_mends_go_together(part: str) -> None:
    """With any of them left out the others do as well: no two ranges overlap."""
    shipped = mends.read_shipped(part)
    wide = "\n".join(["x" * 300] * 600).encode()
    somewhere = tuple(
        replace(
            mend,
            files=tuple(
                one if one.blob is None else replace(one, blob=blob_id(wide)) for one in mend.files
            ),
        )
        for mend in shipped
    )
    sources = {path: wide for path, blob in mends.list_files(shipped).items() if blob}
    assert {*mends.apply(somewhere, sources)} == {*mends.read_images(part)}


def test_an_image_that_is_not_the_known_one() -> None:
    shipped = mends.read_shipped()
    with pytest.raises(PatchgenError, match="the mends do not give the image that is known"):
        mends.verify(shipped, dict.fromkeys(mends.read_images(), b""))
    mends.verify(shipped[1:], {})
