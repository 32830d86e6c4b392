from __future__ import annotations

import pytest

from patchgen.core.patch import diff, images
from patchgen.core.patch.pins import Hook, HookedFile
from patchgen.system.git_objects import blob_id


def hooked(pre: bytes, hooks: dict[str, int], texts: dict[str, bytes]) -> HookedFile:
    lines = [line.decode().rstrip("\n") for line in images.lines_of(pre)]
    made = tuple(
        Hook(name, at, tuple(lines[max(0, at - 3) : at]), tuple(lines[at : at + 3]))
        for name, at in hooks.items()
    )
    file = HookedFile("f", blob_id(pre), "", made)
    return HookedFile("f", file.pre, blob_id(images.post_image(file, pre, texts)), made)


NUMBERS = b"".join(b"%d\n" % n for n in range(1, 31))
TEXTS = {"a": b"A\n", "b": b"B1\nB2\n"}


@pytest.mark.parametrize(
    ("hooks", "spans"),
    [
        ({"a": 10}, ["@@ -8,6 +8,7 @@"]),
        ({"a": 10, "b": 12}, ["@@ -8,8 +8,11 @@"]),
        ({"a": 10, "b": 16}, ["@@ -8,12 +8,15 @@"]),
        ({"a": 10, "b": 17}, ["@@ -8,6 +8,7 @@", "@@ -15,6 +16,8 @@"]),
        ({"a": 1}, ["@@ -1,4 +1,5 @@"]),
        ({"a": 0}, ["@@ -1,3 +1,4 @@"]),
        ({"b": 30}, ["@@ -28,3 +28,5 @@"]),
    ],
)
def test_hunks_merge_where_contexts_touch(hooks: dict[str, int], spans: list[str]) -> None:
    text = diff.modified(hooked(NUMBERS, hooks, TEXTS), TEXTS).decode()
    assert [line for line in text.splitlines() if line.startswith("@@")] == spans


@pytest.mark.parametrize("hooks", [{"a": 10}, {"a": 3, "b": 5}, {"a": 0, "b": 30}])
def test_images_are_inverse(hooks: dict[str, int]) -> None:
    file = hooked(NUMBERS, hooks, TEXTS)
    post = images.post_image(file, NUMBERS, TEXTS)
    assert blob_id(post) == file.post
    assert images.pinned_pre(file, post, TEXTS) == NUMBERS


def test_a_new_file() -> None:
    assert diff.added("d/f", b"one\n").decode().splitlines()[1:] == [
        "new file mode 100644",
        "index " + "0" * 40 + ".." + blob_id(b"one\n"),
        "--- /dev/null",
        "+++ b/d/f",
        "@@ -0,0 +1 @@",
        "+one",
    ]
    assert b"@@ -0,0 +1,2 @@\n+a\n+b\n" in diff.added("f", b"a\nb\n")
