"""The files of a graft, from repositories that the tests make: few are fetched, all verified."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from support import torch_project
from support.trees import git

from patchgen.errors import ToolError, TreeError
from patchgen.graft.remote import Commit
from patchgen.graft.sources import Origin, fetched
from patchgen.source import Places
from patchgen.source.repository import Repository
from patchgen.system.interpreter import Torch
from patchgen.system.objects import Store, object_id

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

HEADERS = {"gloo/a.h": "a", "gloo/sub dir/b.h": "b", "gloo/é.h": "c"}
OTHERS = {"gloo/a.cc": "not wanted", "CMakeLists.txt": "nor this"}


@dataclass(frozen=True)
class Served:
    """A repository, and a directory to fetch into."""

    root: Path
    commit: str
    scratch: Path

    def reader(self, url: str | None = None, **places: list[str]) -> Commit:
        shutil.rmtree(self.scratch / "git", ignore_errors=True)
        repository = Repository(
            str(self.scratch), "third_party/gloo", ("gloo",), str(self.scratch / "git"),
            self.commit, str(self.root) if url is None else url,
        )  # fmt: skip
        return Commit(repository, Store(str(self.scratch / "store")), Places(**places))

    def read(self, url: str | None = None, **places: list[str]) -> dict[str, bytes]:
        reader = self.reader(url, **places)
        return reader.contents(reader.files("gloo", (".h",)))


@pytest.fixture
def served(tmp_path: Path) -> Served:
    root = tmp_path / "mirror" / "facebookincubator+gloo"
    for name, text in {**HEADERS, **OTHERS}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "pinned")
    commit = git(root, "rev-parse", "HEAD")
    (root / "gloo" / "a.h").write_text("a later one")
    git(root, "commit", "-qam", "later")
    (tmp_path / "scratch").mkdir()
    return Served(root, commit, tmp_path / "scratch")


WANTED = {name: text.encode() for name, text in HEADERS.items()}


def test_only_what_is_needed_is_fetched(served: Served) -> None:
    assert served.read() == WANTED
    listed = git(served.scratch / "git", "rev-list", "--objects", "--no-walk", "--missing=print",
                 served.commit).splitlines()  # fmt: skip
    assert {line[1:] for line in listed if line.startswith("?")} == {
        object_id("blob", text.encode()) for text in OTHERS.values()
    }


def test_the_store_needs_no_repository_and_is_verified_at_each_use(served: Served) -> None:
    served.read()
    served.root.rename(served.root.with_name("gone"))
    assert served.read() == WANTED
    assert not (served.scratch / "git").exists(), "nothing was fetched"
    for kept in sorted((served.scratch / "store").glob("*/*")):
        content = kept.read_bytes()
        for broken in (content[:-1], content + b"x", b""):
            kept.write_bytes(broken)
            with pytest.raises(ToolError, match="third_party/gloo"):
                served.read()
        kept.write_bytes(content)
    served.root.with_name("gone").rename(served.root)
    kept.write_bytes(b"broken")
    assert served.read() == WANTED
    assert kept.read_bytes() == content


@pytest.mark.parametrize("way", ["insteadOf", "mirror", "base", "reference", "bundle"])
def test_every_way_to_a_repository(served: Served, isolated: Path, way: str) -> None:
    url = "https://github.com/facebookincubator/gloo.git"
    mirror = served.root.parent
    if way == "insteadOf":
        route = f'[url "{served.root}"]\n\tinsteadOf = {url}\n'
        (isolated / ".gitconfig").write_text(route)
        found = served.read(url)
    elif way == "mirror":
        found = served.read(url, mirrors=[str(mirror)])
    elif way == "base":
        git(mirror, "clone", "-q", "--bare", str(served.root), "gloo.git")
        found = served.read(url, mirrors=[f"file://{mirror}"])
    elif way == "reference":
        (mirror / "pytorch" / "third_party").mkdir(parents=True)
        served.root.rename(mirror / "pytorch" / "third_party" / "gloo")
        found = served.read(url, references=[str(mirror / "pytorch")])
    else:
        git(served.root, "bundle", "create", "-q", str(mirror / "gloo.bundle"), "--all")
        shutil.rmtree(served.root)
        found = served.read(url, mirrors=[str(mirror)])
    assert found == WANTED


def test_what_is_not_there_is_told(served: Served) -> None:
    absent = dataclasses.replace(served, commit="1" * 40)
    with pytest.raises(ToolError, match=r"third_party/gloo 111111111111:\n.*\n.*--source") as told:
        absent.read()
    assert f"{served.root}: " in str(told.value)
    with pytest.raises(TreeError, match="has no gloo/none"):
        served.reader().entry("gloo/none")
    with pytest.raises(TreeError, match="is no directory"):
        served.reader().directory("gloo/a.h")


def test_a_repository_that_is_not_what_its_objects_say(served: Served) -> None:
    """Another content under the id of a wanted one is never handed on, whoever made it so."""
    wanted = object_id("blob", b"a")
    place = served.root / ".git" / "objects" / wanted[:2] / wanted[2:]
    other = served.root / "other"
    other.write_text("forged")
    forged = git(served.root, "hash-object", "-w", "other")
    place.chmod(0o600)
    shutil.copyfile(served.root / ".git" / "objects" / forged[:2] / forged[2:], place)
    with pytest.raises(ToolError):
        served.read()
    assert not (served.scratch / "store" / wanted[:2] / wanted[2:]).exists()


def test_the_source_of_a_torch(tmp_path: Path) -> None:
    """Of the real file: its post-image, and the headers beside it where torch has none."""
    header = "torch/csrc/distributed/c10d/ProcessGroupGloo.hpp"
    project = torch_project.make(
        tmp_path / "project", torch_project.debian_source(), {header: "of the commit"}
    )
    include = tmp_path / "torch" / "include"
    for name in ("ATen/x.h", "gloo/allreduce.h"):
        (include / name).parent.mkdir(parents=True)
        (include / name).touch()
    torch = Torch(
        python="", version="1.13.1", commit=project.commit, cuda=None, cxx11_abi=True, gloo=True,
        root=str(tmp_path / "torch"), python_include="", purelib="", tag="cp311",
    )  # fmt: skip
    origin = Origin(str(tmp_path / "cache"), Places([str(project.mirror)]))
    steps: list[str] = []
    found = fetched(project.pin, torch, origin, steps.append, gloo_only=False)
    hooked = "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp"
    post = next(file.post for file in project.pin.files if file.path == hooked)
    assert object_id("blob", found[hooked]) == post
    assert found.keys() == {hooked, header}
    assert steps == [f"getting {hooked} of PyTorch {project.pin.name}"]
    (include / header).parent.mkdir(parents=True)
    (include / header).touch()
    assert fetched(project.pin, torch, origin, steps.append, gloo_only=False).keys() == {hooked}
