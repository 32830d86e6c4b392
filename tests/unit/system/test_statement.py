from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import disks

from patchgen.errors import FileError, OptionsError
from patchgen.system import statement
from patchgen.system.files import Artifact
from patchgen.system.statement import Provenance

MADE = Provenance(
    kind="graft",
    subjects=(Artifact("graft.so", 17, "1" * 64), Artifact("b", 0, "2" * 64)),
    request={"flags": ["DPDK"]},
    resolved={"torch": {"version": "1.7.1"}},
    materials=(
        statement.describe_commit("pytorch", "https://example.org/pytorch", "3" * 40),
        statement.describe_file("lib.a", "4" * 64),
    ),
    builder={"switchml-patch": "0.0.1"},
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = statement.write(str(tmp_path / "graft.so"), MADE)
    assert path == str(tmp_path / "graft.so.provenance.json")
    assert statement.read(path) == MADE


def test_an_input_is_found_by_its_name() -> None:
    assert MADE.find_digest("pytorch") == "3" * 40
    assert MADE.find_digest("lib.a") == "4" * 64
    assert MADE.find_digest("torch") is None
    assert MADE.find_digest("other") is None


def test_the_order_of_keys_does_not_count() -> None:
    request = {"flags": ["DPDK"], "homes": {}}
    turned = dict(reversed(request.items()))
    assert replace(MADE, request=request).content() == replace(MADE, request=turned).content()


def test_a_provenance_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = statement.write(str(tmp_path / "graft.so"), MADE)
    disks.fill(monkeypatch)
    with pytest.raises(FileError, match="No space left"):
        statement.write(str(tmp_path / "graft.so"), replace(MADE, kind="plugin"))
    assert statement.read(path) == MADE


def damaged() -> list[bytes]:
    """Statements with a part that is missing or something else."""
    found = [b"", b"[]", b"\xff", b'{"_type": 1}', b"[" * 100_000]
    sound: Any = MADE.statement()
    definition = sound["predicate"]["buildDefinition"]
    subject = {"name": "a", "digest": {"sha256": "1" * 64}, "annotations": {"size": 1}}
    for place, name, value in (
        (sound, "_type", "other"),
        (sound, "subject", []),
        (sound, "subject", [{"name": "graft.so"}]),
        (sound, "subject", [{**subject, "annotations": {"size": math.inf}}]),
        (sound, "subject", [{**subject, "digest": {"sha256": "../a"}}]),
        (sound, "predicate", []),
        (definition, "buildType", "urn:other:graft:v1"),
        (definition, "buildType", "urn:switchml-patch:graft:v2"),
        (definition, "buildType", "graft"),
        (definition, "externalParameters", []),
        (definition, "resolvedDependencies", {}),
        (definition, "resolvedDependencies", ["pytorch"]),
        (definition, "resolvedDependencies", [{"name": "pytorch"}]),
        (definition, "resolvedDependencies", [{"name": "pytorch", "digest": {}}]),
        (definition, "resolvedDependencies", [{"name": 1, "digest": {"gitCommit": "1" * 40}}]),
        *(
            (definition, "resolvedDependencies", [{"name": "a", "digest": {"gitCommit": commit}}])
            for commit in ("--exec=a", "1" * 40 + " --exec=a")
        ),
    ):
        kept, place[name] = place[name], value
        found.append(json.dumps(sound).encode())
        place[name] = kept
    return found


@pytest.mark.parametrize("content", damaged())
def test_what_is_no_provenance_is_refused_in_a_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(OptionsError, match=r"a\.json: no provenance of switchml-patch; give"):
        statement.read(str(path))


def test_what_has_no_end_is_no_provenance() -> None:
    with pytest.raises(FileError, match=r"^/dev/zero: is not a regular file$"):
        statement.read("/dev/zero")


def test_a_provenance_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file"):
        statement.read(str(tmp_path / "a.json"))
