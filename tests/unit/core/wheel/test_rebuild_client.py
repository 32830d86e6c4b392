"""Rebuilds of a file and of its client library, by builders that write small files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from patchgen.core.library import homes, origin
from patchgen.core.source.remotes import Remotes
from patchgen.core.wheel import rebuild
from patchgen.core.wheel.rebuild import ATTESTATION, RebuildRequest, Rebuilt, RecordedBuild
from patchgen.core.wheel.rebuild.requirements import Rebuildable, Requirement
from patchgen.core.wheel.sandbox import Sandbox
from patchgen.errors import OptionsError
from patchgen.system import statement
from patchgen.system.files import Artifact, measure
from patchgen.system.native import cache as caches
from patchgen.system.statement import Provenance

LIBRARY = f"client library: {homes.ARCHIVE}"
TOOLCHAIN = {"toolchain": {"compiler": "c++", "programs": {}}}


def record(kind: str, file: Path, name: str, **more: Any) -> Provenance:
    """Write the provenance of a file."""
    size, sha = measure(str(file)).size, measure(str(file)).sha256
    given: dict[str, Any] = {"request": {}, "resolved": TOOLCHAIN, "materials": (), **more}
    made = Provenance(kind, (Artifact(name, size, sha),), **given)
    statement.write(str(file), made)
    return made


@dataclass
class Builds:
    """A recorded graft with its client library, what their rebuilds write, and notes."""

    root: Path
    graft: bytes = b"graft"
    library: bytes = b"library"
    sources: list[set[str]] = field(default_factory=list)
    """Entries of the cache that the rebuild of the graft gets."""
    shown: list[tuple[bytes, str]] = field(default_factory=list)
    """Libraries that were mounted, and where."""

    def __post_init__(self) -> None:
        self.archive.parent.mkdir(parents=True)
        self.archive.write_bytes(self.library)
        self.output.mkdir()
        for name in ("pytorch", caches.COMPILED):
            (self.root / "cache" / name).mkdir(parents=True)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def archive(self) -> Path:
        return self.home / homes.ARCHIVE

    @property
    def output(self) -> Path:
        return self.root / "output"

    @property
    def request(self) -> RebuildRequest:
        return RebuildRequest(
            str(self.root / "work"), str(self.root / "cache"), {}, (), None, "", None, Remotes()
        )

    def original(self) -> RecordedBuild:
        library = record(origin.SIMULATOR, self.archive, homes.ARCHIVE)
        file = self.root / "graft.so"
        file.write_bytes(self.graft)
        made = record(
            "graft", file, file.name,
            request={"flags": [], "homes": {"SWITCHML_HOME": str(self.home)}},
            resolved={**TOOLCHAIN, "client": library.statement()},
            materials=(statement.describe_file(origin.ARCHIVE, library.subjects[0].sha256),),
        )  # fmt: skip
        return RecordedBuild(str(file), f"{file}{statement.SUFFIX}", made)

    def read(self, _: RecordedBuild, __: RebuildRequest) -> Rebuildable:
        def build(directory: str, cache: str) -> str:
            self.sources.append({*os.listdir(cache)})
            file = Path(directory, "graft.so")
            file.write_bytes(self.graft)
            record("graft", file, file.name)
            return str(file)

        return Rebuildable((Requirement("source", {"a": "1"}, dict),), build)

    def read_library(self, _: RecordedBuild, __: RebuildRequest) -> Rebuildable:
        def build(directory: str, _: str) -> str:
            file = Path(directory, homes.ARCHIVE)
            file.parent.mkdir(parents=True)
            file.write_bytes(self.library)
            return str(file)

        return Rebuildable((Requirement("source", {"b": "2"}, dict),), build)

    def show(self, directory: str, target: str) -> None:
        self.shown.append((Path(directory, homes.ARCHIVE).read_bytes(), target))

    @property
    def kinds(self) -> rebuild.Kinds:
        return {"graft": self.read, origin.SIMULATOR: self.read_library}

    def rebuild(self, original: RecordedBuild) -> Rebuilt:
        return rebuild.rebuild(original, self.kinds, self.request, str(self.output))


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builds:
    made = Builds(tmp_path)
    monkeypatch.setattr("patchgen.core.wheel.sandbox.show_at", made.show)
    return made


def test_equal_files_are_attested_and_nothing_compiled_before_is_used(builds: Builds) -> None:
    done = builds.rebuild(builds.original())
    assert done == Rebuilt(f"{builds.output}/graft.so", f"{builds.output}/graft.so{ATTESTATION}")
    assert builds.sources == [{"pytorch"}]
    assert builds.shown == []
    assert os.path.exists(f"{builds.output}/graft.so{ATTESTATION}")


@pytest.mark.parametrize(("what", "differs"), [("graft", ["graft.so"]), ("library", [LIBRARY])])
def test_a_difference_of_the_file_or_its_library_is_not_attested(
    builds: Builds, what: str, differs: list[str]
) -> None:
    """An attestation of an earlier rebuild goes."""
    original = builds.original()
    builds.rebuild(original)
    setattr(builds, what, b"another")
    done = builds.rebuild(original)
    assert [one.path for one in done.differences] == differs
    assert done.attestation is None
    assert not os.path.exists(f"{builds.output}/graft.so{ATTESTATION}")


@pytest.mark.parametrize("again", [b"library", b"another"])
def test_a_library_that_changed_is_made_again_and_shown(builds: Builds, again: bytes) -> None:
    original = builds.original()
    builds.archive.write_bytes(b"changed since")
    builds.library = again
    done = builds.rebuild(original)
    assert builds.shown == [(again, str(builds.home))]
    assert [one.path for one in done.differences] == [LIBRARY] * (again != b"library")


def test_requirements_of_the_library_are_reported_with_its_name(builds: Builds) -> None:
    missing = rebuild.find_missing(builds.original(), builds.kinds, builds.request)
    assert [one.name for one in missing] == ["client library: source", "source"]


def test_a_library_that_cannot_be_shown_is_required(builds: Builds) -> None:
    original, request = builds.original(), builds.request
    builds.archive.write_bytes(b"changed since")
    row = rebuild.requirements.library(original, request)
    found = []
    for reason in ("", "refused"):
        request.__dict__["sandbox"] = Sandbox(request.work, "/build", reason)
        (missing,) = rebuild.requirements.find_missing([row])
        found.append(missing.required)
    assert found == [False, True]


@pytest.mark.parametrize("name", ["../a", "/a", "lib/../../a"])
def test_a_library_with_a_name_that_leads_elsewhere_is_refused(builds: Builds, name: str) -> None:
    original = builds.original()
    client: Any = original.provenance.resolved["client"]
    client["subject"][0]["name"] = name
    with pytest.raises(OptionsError, match="has no usable subject"):
        original.client()
