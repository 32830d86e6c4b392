from __future__ import annotations

from dataclasses import replace

import pytest

from patchgen.errors import OptionsError, PatchgenError, TreeError
from patchgen.extras.client import fixes
from patchgen.extras.client.fixes import Edit, FileFix, Fix
from patchgen.system.git_objects import blob_id

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
FIX = fixes.parse("some-id", TEXT)


def one(identity: str, start: tuple[int, int], end: tuple[int, int], text: str) -> Fix:
    return Fix(identity, "", (FileFix("a/b.cc", blob_id(BEFORE), (Edit(start, end, text),)),))


def test_what_a_fix_file_says() -> None:
    assert (FIX.id, FIX.title) == ("some-id", "A title, in one sentence.")
    assert fixes.list_files([FIX]) == {"a/b.cc": blob_id(BEFORE), "a/c.h": None}
    assert fixes.apply([FIX], {"a/b.cc": BEFORE, "other": b""}) == {
        "a/b.cc": b"one and2 three\n// before four\nfour",
        "a/c.h": b"first\n\n  third\n",
    }


@pytest.mark.parametrize(
    "line", ["upstream's own line", "at 1", "at 1:2:3", "blob 1", "> text", "at 1:0"]
)
def test_a_line_that_means_nothing(line: str) -> None:
    with pytest.raises(ValueError, match=r"some-id\.fix: line 2: "):
        fixes.parse("some-id", f"Title.\n{line}\n")


def test_the_order_of_fixes_makes_no_difference() -> None:
    first, second = one("a", (2, 3), (2, 3), "A"), one("b", (2, 3), (2, 3), "B")
    third = one("c", (2, 3), (2, 9), "")
    for given in ([first, second, third], [third, second, first]):
        assert fixes.apply(given, {"a/b.cc": BEFORE}) == {"a/b.cc": b"one\ntwoAB\nfour"}


def test_two_fixes_of_one_place() -> None:
    given = [one("a", (2, 0), (2, 5), "A"), one("b", (2, 3), (2, 3), "B")]
    with pytest.raises(PatchgenError, match=r"^a/b\.cc: two fixes change line 2$"):
        fixes.apply(given, {"a/b.cc": BEFORE})


def test_two_fixes_that_bring_one_file() -> None:
    other = replace(FIX, id="other")
    with pytest.raises(PatchgenError, match=r"a/c\.h is another file in another fix"):
        fixes.apply([FIX, other], {"a/b.cc": BEFORE})


@pytest.mark.parametrize("sources", [{"a/b.cc": BEFORE + b"\n"}, {}])
def test_another_source(sources: dict[str, bytes]) -> None:
    with pytest.raises(TreeError, match=r"^a/b\.cc: not the file of commit b5c74a04fa66$"):
        fixes.apply([FIX], sources)


def test_a_fix_is_left_out_by_its_id() -> None:
    known = (FIX, replace(FIX, id="other"))
    assert fixes.choose(["other"], known) == (FIX,)
    with pytest.raises(OptionsError, match="heap: no such fix; there are some-id, other"):
        fixes.choose(["heap"], known)


def test_the_fixes_that_are_shipped() -> None:
    shipped = fixes.read_shipped()
    assert [fix.id for fix in shipped] == [
        "back-off", "completions", "connection", "cores", "counts", "dpdk-names", "duplicates",
        "fast-free", "first-timeout", "flow-rules", "foreign-frames", "glog", "half-batch", "heap",
        "job-end", "job-sizes", "late-answers", "refused", "resent-id", "restart", "rounding",
        "stale-timers", "start-waits", "stop",
    ]  # fmt: skip
    assert all(fix.title.endswith(".") and len(fix.title) < 200 for fix in shipped)
    touched = fixes.list_files(shipped)
    assert {*touched} == {*fixes.read_images()}
    assert all(path.startswith("dev_root/client_lib/src/") for path in touched)


def test_the_fixes_of_the_controller() -> None:
    shipped = fixes.read_shipped(fixes.CONTROLLER)
    assert [fix.id for fix in shipped] == ["dead-workers", "silent-workers"]
    assert not {fix.id for fix in shipped} & {fix.id for fix in fixes.read_shipped()}
    assert {*fixes.list_files(shipped)} == {*fixes.read_images(fixes.CONTROLLER)}


@pytest.mark.parametrize("part", [fixes.LIBRARY, fixes.CONTROLLER])
def test_all_fixes_go_together(part: str) -> None:
    """With any of them left out the others do as well: no two ranges overlap."""
    shipped = fixes.read_shipped(part)
    wide = "\n".join(["x" * 300] * 600).encode()
    somewhere = tuple(
        replace(
            fix,
            files=tuple(
                one if one.blob is None else replace(one, blob=blob_id(wide)) for one in fix.files
            ),
        )
        for fix in shipped
    )
    sources = {path: wide for path, blob in fixes.list_files(shipped).items() if blob}
    assert {*fixes.apply(somewhere, sources)} == {*fixes.read_images(part)}


def test_an_image_that_is_not_the_known_one() -> None:
    shipped = fixes.read_shipped()
    with pytest.raises(PatchgenError, match="the fixed file is not the recorded one"):
        fixes.verify(shipped, dict.fromkeys(fixes.read_images(), b""))
    fixes.verify(shipped[1:], {})
