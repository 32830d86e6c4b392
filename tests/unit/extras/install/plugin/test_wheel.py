"""The plugin's wheel: what is in it, and that nothing else decides its bytes."""

from __future__ import annotations

import configparser
import csv
import io
import os
import zipfile
from pathlib import Path

from support.wheelhouse import digest

from patchgen.extras.install.plugin import wheel

CONTENTS = {"torch_switchml/__init__.py": b"import torch\n", "torch_switchml/_C.so": b"\x7fELF"}
VERSION = "2.13.0+switchml.dpdk"
TAG = "cp311-cp311-linux_x86_64"


def write(directory: Path, contents: dict[str, bytes], *groups: str) -> Path:
    metadata = wheel.Metadata("2.13.0", "switchml.dpdk", TAG, "torch===2.13.0+cpu", groups)
    return Path(wheel.write(str(directory), contents, metadata))


def read(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_record_and_metadata(tmp_path: Path) -> None:
    path = write(tmp_path, CONTENTS)
    assert path.name == "torch_switchml-2.13.0+switchml.dpdk-cp311-cp311-linux_x86_64.whl"
    contents = read(path)
    metadata = "torch_switchml-2.13.0+switchml.dpdk.dist-info"
    record = contents.pop(f"{metadata}/RECORD").decode()
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(record))}
    assert rows.pop(f"{metadata}/RECORD") == ["", ""]
    for name, content in contents.items():
        assert rows.pop(name) == [digest(content), str(len(content))]
    assert not rows
    assert {name: contents[name] for name in CONTENTS} == CONTENTS
    lines = contents[f"{metadata}/METADATA"].decode().splitlines()
    assert "Name: torch-switchml" in lines
    assert f"Version: {VERSION}" in lines
    assert "Requires-Dist: torch===2.13.0+cpu" in lines
    assert f"Tag: {TAG}" in contents[f"{metadata}/WHEEL"].decode().splitlines()


def test_entry_point(tmp_path: Path) -> None:
    name = f"torch_switchml-{VERSION}.dist-info/entry_points.txt"
    assert name not in read(write(tmp_path, CONTENTS))
    content = read(write(tmp_path, CONTENTS, "torch.backends", "torch.other"))[name]
    found = configparser.ConfigParser()
    found.read_string(content.decode())
    entry = {"switchml": "torch_switchml_backend:register"}
    assert {name: dict(found[name]) for name in found.sections()} == {
        "torch.backends": entry,
        "torch.other": entry,
    }


def test_same_contents_same_bytes(tmp_path: Path) -> None:
    paths = []
    for name, order in (("one", 1), ("two", -1)):
        directory = tmp_path / name
        directory.mkdir()
        paths.append(write(directory, dict(list(CONTENTS.items())[::order])))
        os.utime(paths[-1], (0, 0))
    assert paths[0].read_bytes() == paths[1].read_bytes()
