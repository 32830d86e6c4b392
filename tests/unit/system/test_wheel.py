from __future__ import annotations

import csv
import hashlib
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from support.wheelhouse import Entry, Fake, digest, listing, zipped

from patchgen.errors import FileError, TreeError
from patchgen.system.wheel import CHANGED, normalise
from patchgen.system.zips import NO_ARCHIVE

EPOCH = 1607370004  # 2020-12-07 19:40:04 UTC
FAKE = Fake("torch", "1.7.1+switchml", files={"torch/lib/b.so": "b" * 3000000, "torch/a.py": ""})


def rewritten(tmp_path: Path, entries: list[Entry], name: str = "out.whl") -> Path:
    source = zipped(tmp_path / "source.whl", [*entries, recorded(entries)])
    normalise(str(source), str(tmp_path / name), EPOCH)
    return tmp_path / name


def recorded(entries: list[Entry]) -> Entry:
    return Entry(FAKE.record, listing(entries, FAKE.record))


def refused(tmp_path: Path, entries: list[Entry], why: str) -> None:
    source = zipped(tmp_path / "source.whl", entries)
    with pytest.raises(TreeError, match=why) as raised:
        normalise(str(source), str(tmp_path / "out.whl"), EPOCH)
    assert str(raised.value).startswith(f"{source}: ")
    assert os.listdir(tmp_path) == ["source.whl"]


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    entries = FAKE.entries()
    other = [
        replace(one, date=(1999, 1, 1, 0, 0, 0), mode=0o100664, method=zipfile.ZIP_STORED)
        for one in reversed(entries)
    ]
    first = rewritten(tmp_path, entries)
    assert first.read_bytes() == rewritten(tmp_path, other, "other.whl").read_bytes()


def test_it_can_take_the_place_of_its_source_and_stays_as_it_is(tmp_path: Path) -> None:
    source = FAKE.write(tmp_path)
    first = normalise(str(source), str(source), EPOCH)
    assert normalise(str(source), str(source), EPOCH) == first
    assert os.listdir(tmp_path) == [source.name]


def test_order_times_modes_and_method(tmp_path: Path) -> None:
    entries = [
        *(replace(one, mode=0o100710) for one in FAKE.entries() if one.name.endswith(".so")),
        *(one for one in FAKE.entries() if not one.name.endswith(".so")),
        Entry("a directory/", mode=0o040755),
        Entry("zz.data/scripts/run", b"#!python", mode=0o700),
    ]
    listed = [one for one in entries if not one.name.endswith("/")]
    source = zipped(tmp_path / "source.whl", [recorded(listed), *entries])
    message = normalise(str(source), str(tmp_path / "out.whl"), EPOCH)
    assert message == hashlib.sha256((tmp_path / "out.whl").read_bytes()).hexdigest()
    with zipfile.ZipFile(tmp_path / "out.whl") as archive:
        assert archive.testzip() is None
        found = archive.infolist()
    assert [one.filename for one in found] == [
        "torch.py",
        "torch/a.py",
        "torch/lib/b.so",
        "zz.data/scripts/run",
        f"{FAKE.info}/METADATA",
        f"{FAKE.info}/WHEEL",
        FAKE.record,
    ]
    executable = {one.filename for one in found if one.external_attr >> 16 == 0o100755}
    assert executable == {"torch/lib/b.so", "zz.data/scripts/run"}
    assert {one.external_attr >> 16 for one in found} == {0o100644, 0o100755}
    assert {one.date_time for one in found} == {(2020, 12, 7, 19, 40, 4)}
    assert {one.compress_type for one in found} == {zipfile.ZIP_DEFLATED}
    assert not any(one.extra or one.flag_bits for one in found)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, (1980, 1, 1, 0, 0, 0)),
        (-1, (1980, 1, 1, 0, 0, 0)),
        (315532802, (1980, 1, 1, 0, 0, 2)),
        (1 << 40, (2107, 12, 31, 23, 59, 58)),
    ],
)
def test_times_that_zip_cannot_say(tmp_path: Path, epoch: int, expected: tuple[int, ...]) -> None:
    normalise(str(FAKE.write(tmp_path)), str(tmp_path / "out.whl"), epoch)
    with zipfile.ZipFile(tmp_path / "out.whl") as archive:
        assert {one.date_time for one in archive.infolist()} == {expected}


def test_record_is_rebuilt_in_the_order_of_the_archive(tmp_path: Path) -> None:
    entries = [*FAKE.entries(), Entry('torch/a, "b".py', b"x"), Entry("torch/\u00e9.py", b"y")]
    rows = [
        f'"{one.name.replace(chr(34), chr(34) * 2)}",{digest(one.content, kind)},{len(one.content)}'
        for one, kind in zip(entries, ["sha512", "sha384", *["sha256"] * len(entries)])
    ]
    record = Entry(FAKE.record, "\n".join([*rows, f"{FAKE.record},,"]).encode())
    source = zipped(tmp_path / "source.whl", [*entries, record])
    normalise(str(source), str(tmp_path / "out.whl"), EPOCH)
    with zipfile.ZipFile(tmp_path / "out.whl") as archive:
        names = archive.namelist()
        found = list(csv.reader(archive.read(FAKE.record).decode().splitlines()))
    contents = {one.name: one.content for one in entries}
    assert [row[0] for row in found] == names
    assert {row[0]: row[1:] for row in found} == {
        FAKE.record: ["", ""],
        **{name: [digest(held), str(len(held))] for name, held in contents.items()},
    }


def test_another_hash_of_the_record_is_compared_too(tmp_path: Path) -> None:
    entries = FAKE.entries()
    rows = b"".join(
        f"{one.name},{digest(one.content, 'sha512')},{len(one.content)}\n".encode()
        for one in entries
    )
    changed = replace(entries[0], content=entries[0].content + b"#")
    listed = Entry(FAKE.record, rows)
    refused(tmp_path, [changed, *entries[1:], listed], f"torch.py: {CHANGED}")


OUTSIDE = "../evil.py /etc/evil torch/../../evil torch//evil ./evil c:/evil torch\\evil"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        *((Entry(name, b"x"), "outside of the wheel") for name in OUTSIDE.split()),
        (Entry("torch/link", b"a.py", mode=0o120777), "torch/link: not a regular file"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_an_entry_that_is_no_file_of_a_wheel_is_refused(
    tmp_path: Path, entry: Entry, why: str
) -> None:
    entries = [*FAKE.entries(), entry]
    refused(tmp_path, [*entries, recorded(entries)], why)


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    entries = FAKE.entries()
    refused(tmp_path, entries, "no wheel: has no")
    second = Entry("other-1.dist-info/RECORD", b"")
    refused(tmp_path, [*entries, recorded(entries), second], "no wheel: has 2")
    deep = Entry(f"torch/{FAKE.record}", b"")
    refused(tmp_path, [*entries, deep], "no wheel: has no")


def test_two_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    entries = FAKE.entries()
    with pytest.warns(UserWarning, match="Duplicate name"):
        refused(tmp_path, [*entries, entries[0], recorded(entries)], "two entries named torch.py")


def test_what_differs_from_record_is_refused(tmp_path: Path) -> None:
    entries = FAKE.entries()
    record = recorded(entries)
    changed = replace(entries[1], content=entries[1].content[:-1] + b"c")
    why = r"torch/lib/b.so: not what was recorded: 3000000 bytes, sha256=\S+; RECORD says 3000000"
    refused(tmp_path, [entries[0], changed, *entries[2:], record], why)
    refused(tmp_path, [*entries[1:], record], "torch.py: missing, though in .*RECORD")
    refused(tmp_path, [*entries, Entry("more.py"), record], "more.py: not in .*RECORD")
    unsigned = Entry(f"{FAKE.record}.jws")
    refused(tmp_path, [*entries, unsigned, record], "RECORD.jws: not in")


EMPTY = digest(b"").encode()
ROWS = (b",", b"md5=1B2M2Y8AsgTpgAmY7PhCfg,0", b"sha256=AAAA,0", b"sha256=%,0", EMPTY)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        *((b"torch.py," + row, "not a path, a hash") for row in (*ROWS, EMPTY + b",-1")),
        (b"\xff,,", "no RECORD"),
        (b"torch.py,%b,1\ntorch.py,%b,1" % (EMPTY, EMPTY), "names torch.py twice"),
    ],
)
def test_a_record_that_says_nothing_is_refused(tmp_path: Path, row: bytes, why: str) -> None:
    refused(tmp_path, [*FAKE.entries(), Entry(FAKE.record, row)], why)


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    source = Fake("torch", "1").write(tmp_path)
    sound = source.read_bytes()
    broken, output = tmp_path / "broken.whl", tmp_path / "out.whl"
    message = 0
    for position in range(0, len(sound), 3):
        damaged = bytearray(sound)
        damaged[position] ^= 0x55
        broken.write_bytes(damaged)
        try:
            normalise(str(broken), str(output), EPOCH)
        except TreeError as error:
            message += "\n" not in str(error) and not output.exists()
        else:  # a byte that says nothing about the files, as of a time
            message += 1
            output.unlink()
    assert message == len(range(0, len(sound), 3))
    broken.write_bytes(sound[: len(sound) // 2])
    with pytest.raises(TreeError, match=NO_ARCHIVE):
        normalise(str(broken), str(output), EPOCH)


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    source = str(FAKE.write(tmp_path))
    with pytest.raises(FileError, match=r"^/nowhere/a.whl: No such file"):
        normalise("/nowhere/a.whl", str(tmp_path / "out.whl"), EPOCH)
    with pytest.raises(FileError, match=r"\.whl: File exists"):
        normalise(source, f"{source}/out.whl", EPOCH)
    (tmp_path / "directory").mkdir()
    with pytest.raises(FileError, match="directory: Is a directory"):
        normalise(source, str(tmp_path / "directory"), EPOCH)
    assert sorted(os.listdir(tmp_path)) == ["directory", os.path.basename(source)]
