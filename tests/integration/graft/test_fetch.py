"""The files of a graft, from repositories that the tests make: few are fetched, all verified."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import miniature, torch_project, trees
from support.source import serve
from support.trees import git

from patchgen.core.source import commit as commits
from patchgen.core.source.commit import Commit
from patchgen.core.source.fetch import fetch
from patchgen.core.source.remotes import Remotes
from patchgen.core.source.repository import Repository
from patchgen.core.torch import Torch
from patchgen.errors import ToolError, TreeError
from patchgen.extras.install.graft.sources import GraftOrigin, fetched, gather
from patchgen.system.git_objects import object_id

HEADERS = {"gloo/a.h": "a", "gloo/sub dir/b.h": "b", "gloo/é.h": "c"}
OTHERS = {"gloo/a.cc": "not wanted", "CMakeLists.txt": "nor this"}


@dataclass(frozen=True)
class Served:
    """A repository, and a directory to fetch into."""

    root: Path
    commit: str
    scratch: Path

    @property
    def clone(self) -> Path:
        """What the reader has of it in its cache."""
        return self.scratch / "git" / f"{self.commit}.git"

    def reader(self, url: str | None = None, **remotes: list[str]) -> Commit:
        address = str(self.root) if url is None else url
        repository = Repository("", "third_party/gloo", ("gloo",), "", self.commit, address)
        return Commit(repository, str(self.scratch), Remotes(**remotes))

    def read(self, url: str | None = None, **remotes: list[str]) -> dict[str, bytes]:
        reader = self.reader(url, **remotes)
        return reader.contents(reader.files("gloo", (".h",)))


@pytest.fixture
def served(tmp_path: Path) -> Served:
    root = tmp_path / "mirror" / "facebookincubator+gloo"
    for name, text in {**HEADERS, **OTHERS}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    trees.commit(root)
    commit = git(root, "rev-parse", "HEAD")
    (root / "gloo" / "a.h").write_text("a later one")
    git(root, "commit", "-qam", "later")
    (tmp_path / "scratch").mkdir()
    return Served(root, commit, tmp_path / "scratch")


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def forge(git_dir: Path, name: str, text: str) -> None:
    """Puts another content under the id of an object."""
    other = git_dir.parent / "other"
    other.write_text(text)
    forged = git(git_dir, "hash-object", "-w", str(other))
    other.unlink()
    objects = (
        git_dir / "objects" if (git_dir / "objects").is_dir() else git_dir / ".git" / "objects"
    )
    for pack in [*objects.glob("pack/*.pack")]:  # git looks there first
        packed = pack.rename(git_dir / pack.name).read_bytes()
        for beside in objects.glob(f"pack/{pack.stem}.*"):
            beside.unlink()
        subprocess.run(["git", "unpack-objects", "-q"], cwd=git_dir, input=packed, check=True)
        (git_dir / pack.name).unlink()
    place = objects / name[:2] / name[2:]
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    shutil.copyfile(objects / forged[:2] / forged[2:], place)


WANTED = {name: text.encode() for name, text in HEADERS.items()}


def test_only_what_is_needed_is_fetched(served: Served) -> None:
    assert served.read() == WANTED
    listed = git(served.clone, "rev-list", "--objects", "--no-walk", "--missing=print",
                 served.commit).splitlines()  # fmt: skip
    assert {line[1:] for line in listed if line.startswith("?")} == {
        object_id("blob", text.encode()) for text in OTHERS.values()
    }


def test_the_cache_needs_no_repository_and_is_verified_at_each_use(served: Served) -> None:
    served.read()
    away = served.root.with_name("gone")
    served.root.rename(away)
    before = contents(served.clone)
    assert served.read() == WANTED
    assert contents(served.clone) == before, "nothing was fetched"
    packs = sorted(served.clone.glob("objects/pack/*.pack"))
    assert packs
    for pack in packs:
        content = pack.read_bytes()
        pack.chmod(0o600)
        for broken in (content[:-30], content[:12] + bytes(len(content) - 12), b""):
            pack.write_bytes(broken)
            with pytest.raises(ToolError, match="third_party/gloo"):
                served.read()
        pack.write_bytes(content)
    assert served.read() == WANTED
    away.rename(served.root)
    pack.write_bytes(b"broken")
    assert served.read() == WANTED
    served.root.rename(away)
    assert served.read() == WANTED, "what was damaged was replaced"


def test_an_object_that_is_not_what_its_id_says_is_fetched_anew(served: Served) -> None:
    """As git itself gives it out, since it looks at the ids of few objects that it reads."""
    served.read()
    for name in sorted(HEADERS):
        wanted = object_id("blob", HEADERS[name].encode())
        forge(served.clone, wanted, "forged")
        assert git(served.clone, "cat-file", "blob", wanted) == "forged"
        assert served.read() == WANTED
        assert git(served.clone, "cat-file", "blob", wanted) == HEADERS[name]


@pytest.mark.parametrize("state", ["killed before its end", "a file", "empty"])
def test_what_is_no_clone_is_replaced(served: Served, state: str) -> None:
    served.clone.parent.mkdir()
    if state == "a file":
        served.clone.write_text("text")
    else:
        served.clone.mkdir()
    if state == "killed before its end":
        git(served.clone, "init", "-q", "--bare")
        (served.clone / "shallow.lock").touch()
    assert served.read() == WANTED


def test_several_at_once(served: Served) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = [pool.submit(served.read) for _ in range(8)]
        assert [one.result() for one in found] == [WANTED] * 8
    assert [path.name for path in served.clone.parent.iterdir()] == [served.clone.name]


def test_a_clone_that_another_made_meanwhile_stays(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads it would find nothing while it is exchanged."""
    made = []

    def slow(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(commits, "fetch", fetch)
        assert served.read() == WANTED
        made.append(served.clone.stat().st_ino)
        fetch(*arguments, **options)

    monkeypatch.setattr(commits, "fetch", slow)
    assert served.read() == WANTED
    assert made == [served.clone.stat().st_ino]


@pytest.mark.parametrize(
    ("filters", "by_id", "lacks"),
    [("true", True, True), ("false", True, False), ("false", False, False), ("true", False, False)],
    ids=["filters", "single commits", "neither", "filters without single objects"],
)
def test_a_server_that_allows_less(
    served: Served, tmp_path: Path, filters: str, *, by_id: bool, lacks: bool
) -> None:
    """With filters alone the commit may come without its files, which none can ask for then."""
    base = tmp_path / "base"
    git(tmp_path, "clone", "-q", "--bare", str(served.root), str(base / "o" / "gloo.git"))
    git(base / "o" / "gloo.git", "config", "uploadpack.allowFilter", filters)
    with serve(base, 2 if by_id else 0, by_id=by_id) as server:
        assert served.read(f"{server.url}/o/gloo.git") == WANTED
    listed = git(served.clone, "rev-list", "--objects", "--no-walk", "--missing=print",
                 served.commit).splitlines()  # fmt: skip
    lacking = [line for line in listed if line.startswith("?")]
    assert len(lacking) == (len(OTHERS) if lacks else 0)


def test_what_is_not_there_is_reported(served: Served) -> None:
    absent = dataclasses.replace(served, commit="1" * 40)
    with pytest.raises(ToolError, match=r"third_party/gloo 111111111111:\n.*") as message:
        absent.read()
    assert f"{served.root}: " in str(message.value)
    with pytest.raises(TreeError, match="has no gloo/none"):
        served.reader().entry("gloo/none")
    with pytest.raises(TreeError, match="is no directory"):
        served.reader().directory("gloo/a.h")


def test_a_repository_that_is_not_what_its_objects_say(served: Served) -> None:
    """Another content under the id of a wanted one is never handed on, whoever made it so."""
    wanted = object_id("blob", b"a")
    forge(served.root, wanted, "forged")
    with pytest.raises(ToolError):
        served.read()


def test_the_source_of_a_torch(
    tmp_path: Path, isolated: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the real file: its post-image, and the headers beside it where torch has none."""
    (isolated / ".gitconfig").write_text(
        '[url "http://127.0.0.1:1/"]\n\tinsteadOf = https://github.com/\n'
    )
    header = "torch/csrc/distributed/c10d/ProcessGroupGloo.hpp"
    project = torch_project.make(tmp_path / "project", {header: "of the commit"})
    include = tmp_path / "torch" / "include"
    for name in ("ATen/x.h", "gloo/allreduce.h"):
        (include / name).parent.mkdir(parents=True)
        (include / name).touch()
    torch = Torch(
        python="", version="1.13.1", commit=project.commit, cuda=None, cxx11_abi=True, gloo=True,
        root=str(tmp_path / "torch"), python_include="", purelib="", tag="cp311",
    )  # fmt: skip
    origin = GraftOrigin(str(tmp_path / "cache"), Remotes([str(project.mirror)]))
    caplog.set_level("INFO", "patchgen")
    found = fetched(project.pin, torch, origin, gloo_only=False)
    hooked = "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp"
    post = next(file.post for file in project.pin.files if file.path == hooked)
    assert object_id("blob", found[hooked]) == post
    assert found.keys() == {hooked, header}
    assert caplog.messages == [f"getting {hooked} of PyTorch {project.pin.name}"]
    absent = project.pin._replace(commit="1" * 40)
    with pytest.raises(ToolError, match=r"PyTorch 111111111111:\n(.*\n)*.*--source"):
        fetched(absent, torch, origin, gloo_only=False)
    (include / header).parent.mkdir(parents=True)
    (include / header).touch()
    assert fetched(project.pin, torch, origin, gloo_only=False).keys() == {hooked}
    like = project.pin._replace(commit="1" * 40, grafts=(project.commit,))
    pin, sources = gather(torch, None, [like], origin)
    assert (pin.name, pin.commit, [*sources]) == (like.name, project.commit, [hooked])
    (include / "gloo" / "allreduce.h").unlink()
    with pytest.raises(ToolError, match="with third_party/gloo"):
        gather(torch, str(project.pytorch), [project.pin], GraftOrigin(str(tmp_path / "empty")))


def test_the_source_of_a_torch_with_a_header_of_works(tmp_path: Path) -> None:
    """The post-images of both files, though torch has the header itself."""
    root, include = tmp_path / "mirror" / "pytorch+pytorch", tmp_path / "torch" / "include"
    pin = miniature.write(root, "torch-csrc-2.8")
    trees.commit(root)
    pin = pin._replace(commit=git(root, "rev-parse", "HEAD"))
    for name in ("ATen/x.h", "gloo/allreduce.h", f"{pin.include_prefix}/ProcessGroupGloo.hpp"):
        (include / name).parent.mkdir(parents=True)
        (include / name).touch()
    torch = Torch(
        python="", version=pin.version, commit=pin.commit, cuda=None, cxx11_abi=True, gloo=True,
        root=str(tmp_path / "torch"), python_include="", purelib="", tag="cp311",
    )  # fmt: skip
    origin = GraftOrigin(str(tmp_path / "cache"), Remotes([str(tmp_path / "mirror")]))
    found = fetched(pin, torch, origin, gloo_only=False)
    wanted = {file.path: file.post for file in pin.files if "c10d" in file.path}
    assert {path: object_id("blob", text) for path, text in found.items()} == wanted
    assert len(wanted) == 2
