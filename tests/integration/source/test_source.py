"""source: a small PyTorch with submodules, fetched by real git from servers on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import programs, unprivileged
from support.disks import small
from support.source import GITHUB, World, serve, stalled
from support.trees import FLAGS, git, tool
from support.waiting import ENOUGH, read_rest, read_until
from support.web import serve_files

HOSTILE = """
[core]
    autocrlf = true
    eol = crlf
    hooksPath = {hooks}
    attributesFile = {attributes}
    symlinks = false
    quotePath = true
    fsmonitor = true
    askPass = /bin/false
[fetch]
    recurseSubmodules = true
    prune = true
    fsckObjects = true
    negotiationAlgorithm = noop
[submodule]
    recurse = true
[protocol]
    version = 0
[protocol "file"]
    allow = never
[commit]
    gpgSign = true
[init]
    templateDir = {hooks}
    defaultBranch = trunk
[status]
    showUntrackedFiles = all
    short = true
    branch = true
[color]
    ui = always
[checkout]
    guess = false
    defaultRemote = nowhere
"""


def snapshot(tree: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in tree.rglob("*")
        if path.is_file() and path.name != "index"
    }


def test_fetches_all_and_then_nothing(world: World, tmp_path: Path) -> None:
    tree = tmp_path / "with space/ünïcode ' $x [a] *"
    done = world.run(tree, "--json")
    data = json.loads(done.stdout)
    assert data["state"] == "clean"
    assert data["tree"] == str(tree)
    fetched = {one["path"]: one["fetched_from"] for one in data["repositories"]}
    assert fetched == {
        "": f"{GITHUB}pytorch/pytorch.git",
        "third_party/gloo": f"{GITHUB}facebookincubator/gloo",
        "third_party/gloo/deps/inner": f"{GITHUB}facebookincubator/inner.git",
        "third_party/tbb": f"{GITHUB}uxlfoundation/oneTBB.git",
    }
    assert "[4/4]" in done.stderr
    world.check(tree)
    for path in ("", *world.commits):
        assert git(tree / path, "rev-list", "--count", "HEAD") == "1"
    before = snapshot(tree)
    world.offline()
    assert "0 repositories fetched" in world.run(tree).stderr
    assert "with 3 submodules" in world.run(Path("."), cwd=str(tree)).stderr
    assert snapshot(tree) == before


@pytest.mark.parametrize(("protocol", "by_id"), [(2, False), (0, True), (0, False)])
def test_smart_servers(world: World, tmp_path: Path, protocol: int, *, by_id: bool) -> None:
    with serve(world.served, protocol, by_id=by_id) as server:
        world.route(server.url)
        world.fetch(tmp_path / "t")
    shallow = git(tmp_path / "t", "rev-parse", "--is-shallow-repository")
    assert shallow == ("true" if protocol == 2 or by_id else "false")


def test_a_server_of_files(world: World, tmp_path: Path) -> None:
    with serve_files(world.served) as url:
        world.route(url)
        world.fetch(tmp_path / "t")


def test_git_configuration_does_not_spoil_the_tree(world: World, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        programs.script(hooks / name, "#!/bin/sh\nexit 1\n")
    attributes = tmp_path / "attributes"
    attributes.write_text("* text eol=crlf\n")
    world.route(f"file://{world.served}", HOSTILE.format(hooks=hooks, attributes=attributes))
    world.run(tmp_path / "t", GIT_DIR="/nowhere", GIT_WORK_TREE="/nowhere",
              GIT_INDEX_FILE="/nowhere/index", GIT_DEFAULT_HASH="sha256")  # fmt: skip
    assert "0 repositories fetched" in world.run(tmp_path / "t").stderr
    world.route(f"file://{world.served}")
    world.check(tmp_path / "t")


# ---- interruptions


def stopped(world: World, tree: Path, at: int, name: str = "SIGKILL") -> bool:
    """True where the run was stopped before its end."""
    program = str(programs.path_of("source_kill"))
    command = [sys.executable, program, str(at), name, str(tree), world.pin_file]
    done = subprocess.run(command, check=False, capture_output=True, timeout=ENOUGH)
    return b"done" not in done.stdout


@pytest.mark.parametrize(
    ("name", "step"),
    [("SIGKILL", 31), ("SIGINT", 31), pytest.param("SIGKILL", 13, marks=pytest.mark.rebuild)],
)
def test_killed_at_many_steps(world: World, tmp_path: Path, name: str, step: int) -> None:
    seen = 0
    for at in range(1, 200, step):
        tree = tmp_path / str(at)
        if not stopped(world, tree, at, name):
            break
        seen += 1
        world.fetch(tree)
        shutil.rmtree(tree)
    else:
        pytest.fail("never reached the end")
    assert seen > 2


def test_what_a_killed_git_leaves_is_cleared(world: World, tree: Path) -> None:
    assert stopped(world, tree, 4)  # made, and nothing fetched
    draft = tree / ".git/switchml-checkout.tmp"
    draft.mkdir()
    (draft / "README.md").write_text("unre")
    left = ["shallow.lock", "config.lock", "index.lock", "HEAD.lock", "objects/pack/tmp_pack_x"]
    for name in left:
        (tree / ".git" / name).write_text("")
    world.fetch(tree)
    assert not [name for name in left if (tree / ".git" / name).exists()]


def test_what_a_killed_git_leaves_in_a_submodule_is_cleared(world: World, tree: Path) -> None:
    with world.without("inner.git"):
        world.run(tree, code=4)
    gloo = tree / ".git/modules/third-party/gloo"
    left = [gloo / "config.lock", tree / ".git/config.lock"]
    left += [gloo / "modules/inner" / name for name in ("shallow.lock", "config.lock", "HEAD.lock")]
    for path in left:
        path.write_text("")
    world.fetch(tree)


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.rebuild)],
)
def test_stopped_during_a_download(world: World, tree: Path, number: signal.Signals) -> None:
    with stalled(world, tree, at="/git-upload-pack") as first:
        first.running.send_signal(number)
        output = read_rest(first.running)
        assert first.running.returncode == (130 if number == signal.SIGINT else -number)
        assert number != signal.SIGINT or output.endswith("interrupted\n")
        first.server.stall = None
        with world.start(tree) as second:
            if number == signal.SIGKILL:
                # The git of a killed run outlives it, and must not work beside that of the next.
                read_until(second, "waiting for the git")
                first.release.set()
            again = read_rest(second)
        assert second.returncode == 0, again
        assert "waiting for the git" not in again
    world.check(tree)


def test_what_is_complete_is_not_fetched_again(world: World, tree: Path) -> None:
    with world.without("inner.git"):
        output = world.run(tree, code=4).stderr
    assert "third_party/gloo/deps/inner" in output
    assert "facebookincubator/inner.git" in output
    assert "--mirror" in output
    with serve(world.served) as server:
        world.route(server.url)
        assert "1 repositories fetched" in world.run(tree).stderr
    assert {request.split("/")[2] for request in server.requests} == {"inner.git"}
    world.check(tree)


def test_without_the_commit_nothing_is_left(world: World, tmp_path: Path) -> None:
    world.offline()
    world.run(tmp_path / "a" / "t", code=4)
    assert not (tmp_path / "a").exists()


def test_a_submodule_that_was_removed_is_put_back_without_a_network(
    world: World, tree: Path
) -> None:
    world.run(tree)
    shutil.rmtree(tree / "third_party/tbb")
    shutil.rmtree(tree / "third_party/gloo/deps")
    world.offline()
    assert "0 repositories fetched" in world.run(tree).stderr
    world.check(tree)


def test_a_full_disk(world: World, tmp_path: Path) -> None:
    place = tmp_path / "small"
    with small(place, "96k") as resize:
        output = world.run(place / "t", code=5).stderr
        assert "make room" in output
        resize("64m")
        world.fetch(place / "t")


# ---- mirrors and references


def test_a_mirror_may_go_away(world: World, tmp_path: Path) -> None:
    mirror = shutil.copytree(world.served, tmp_path / "mirror")
    world.offline()
    world.run(tmp_path / "t", "--mirror", str(mirror))
    shutil.rmtree(mirror)
    world.check(tmp_path / "t")


def test_a_mirror_of_another_owner_is_trusted(world: World, tmp_path: Path) -> None:
    mirror = shutil.copytree(world.served, tmp_path / "mirror")
    for path in (mirror, *mirror.rglob("*")):
        unprivileged.give(path)
    world.offline()
    world.fetch(tmp_path / "t", "--mirror", str(mirror))


def test_a_reference_may_go_away(world: World, tmp_path: Path) -> None:
    world.run(tmp_path / "reference")
    shutil.rmtree(tmp_path / "reference/third_party/tbb")  # its git directory stays
    world.offline()
    world.run(tmp_path / "t", "--reference", str(tmp_path / "reference"))
    shutil.rmtree(tmp_path / "reference")
    world.check(tmp_path / "t")
    for path in ("", *world.commits):
        git(tmp_path / "t" / path, "fsck", "--no-dangling")


def test_a_mirror_without_the_commit_is_passed_over(world: World, tmp_path: Path) -> None:
    other = tmp_path / "mirror/pytorch"
    other.mkdir(parents=True)
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "other")
    world.fetch(tmp_path / "t", "--mirror", str(tmp_path / "mirror"))


@pytest.mark.parametrize("bare", [["--bare"], ["--no-checkout"]])
@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("--filter=blob:none", "partial clone (git clone --filter)"),
        ("--filter=tree:0", "partial clone (git clone --filter)"),
        ("--depth=1", "shallow clone (git clone --depth)"),
    ],
)
def test_a_mirror_without_all_of_the_commit_is_named(
    world: World, tmp_path: Path, option: str, kind: str, bare: list[str]
) -> None:
    mirror = tmp_path / "mirror" / "pytorch"
    origin = world.served / "pytorch" / "pytorch.git"
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", *bare, option, f"file://{origin}", str(mirror))
    git(mirror, "remote", "set-url", "origin", "file:///nowhere")  # lazy fetches would end there
    world.route("file:///nowhere")
    done = world.run(tmp_path / "t", "--mirror", str(mirror.parent), code=4)
    assert f"{mirror}: is a {kind}, and not all of this commit is in it" in done.stderr


# ---- trees that are there


def test_killed_while_the_mark_was_written(world: World, tree: Path) -> None:
    (tree / ".git").mkdir(parents=True)
    (tree / ".git" / ".abc.switchml-tmp").write_text(world.pin.commit[:7])
    world.fetch(tree)
    assert not [*tree.glob(".git/.*.switchml-tmp")]


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fetched") / "t"


@pytest.fixture
def whole(world: World, fetched: Path, tree: Path) -> Path:
    if not fetched.exists():
        world.run(fetched)
    return Path(shutil.copytree(fetched, tree, symlinks=True))


def refused(world: World, tree: Path, *named: str) -> None:
    before = snapshot(tree)
    output = world.run(tree, code=3).stderr
    assert all(name in output for name in named), output
    assert snapshot(tree) == before


def test_a_submodule_at_another_commit(world: World, whole: Path) -> None:
    tbb = whole / "third_party/tbb"
    git(tbb, "commit", "-q", "--allow-empty", "-m", "own work")
    refused(world, whole, "third_party/tbb", world.commits["third_party/tbb"],
            git(tbb, "rev-parse", "HEAD"))  # fmt: skip


@pytest.mark.parametrize("path", ["README.md", "third_party/gloo/file.txt",
                                  "third_party/gloo/deps/inner/file.txt"])  # fmt: skip
def test_local_changes(world: World, whole: Path, path: str) -> None:
    content = (whole / path).read_bytes()
    (whole / path).write_text("own work\n")
    refused(world, whole, f"{path}: expected the committed file, found local changes")
    (whole / path).unlink()
    refused(world, whole, f"{path}: expected the committed file, found nothing")
    (whole / path).write_bytes(content)
    world.run(whole)


def test_changes_that_git_does_not_look_at(world: World, whole: Path) -> None:
    hidden = {
        "README.md": ["--assume-unchanged"],
        "setup.py": ["--skip-worktree"],
        "third_party/gloo/file.txt": ["--assume-unchanged", "--skip-worktree"],
    }
    for path, marks in hidden.items():
        for mark in marks:
            git((whole / path).parent, "update-index", mark, os.path.basename(path))
        (whole / path).write_text("own work\n")
    refused(world, whole, *(f"{path}: expected the committed file" for path in hidden))


def test_an_edit_of_a_hooked_file_is_reported_with_its_ids(world: World, whole: Path) -> None:
    hooked = world.pin.files[0]
    (whole / hooked.path).write_text("own work\n")
    refused(world, whole, hooked.path, hooked.pre, git(whole, "hash-object", hooked.path))


def test_our_own_patch_is_no_change(world: World, whole: Path) -> None:
    tool("apply", str(whole), "--pytorch", world.pin_file, *FLAGS)
    assert ": patched v0.0.1" in world.run(whole).stderr
    git(whole, "add", "-A")
    world.run(whole)
    (whole / world.pin.files[0].path).write_bytes(
        subprocess.run(["git", "show", f"HEAD:{world.pin.files[0].path}"], cwd=whole, check=True,
                       capture_output=True).stdout)  # fmt: skip
    refused(world, whole, "partly patched")


def test_another_commit_of_pytorch(world: World, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(world.served / "pytorch/pytorch.git"), "t")
    refused(world, tmp_path / "t", world.pin.commit, git(tmp_path / "t", "rev-parse", "HEAD"))


def test_a_clone_of_the_user_gets_what_it_lacks(world: World, tmp_path: Path, tree: Path) -> None:
    git(tmp_path, "clone", "-q", str(world.served / "pytorch/pytorch.git"), "t")
    git(tree, "checkout", "-q", world.pin.commit)
    git(tree, "config", "submodule.third_party/tbb.url", "own/address")
    (tree / "notes.txt").write_text("own work\n")
    git(tree, "branch", "own")
    world.run(tree)
    assert git(tree, "config", "submodule.third_party/tbb.url") == "own/address"
    assert (tree / "notes.txt").read_text() == "own work\n"
    (tree / "notes.txt").unlink()
    assert git(tree, "rev-parse", "own", "main").splitlines()
    world.check(tree)


def test_files_in_the_way_of_a_submodule(world: World, tmp_path: Path, tree: Path) -> None:
    git(tmp_path, "clone", "-q", str(world.served / "pytorch/pytorch.git"), "t")
    git(tree, "checkout", "-q", world.pin.commit)
    (tree / "third_party/gloo/own.txt").write_text("own work\n")
    refused(world, tree, "third_party/gloo", "own.txt")


def test_other_directories(world: World, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/own.txt").write_text("own work\n")
    refused(world, tmp_path / "files", "own.txt")
    (tmp_path / "repository").mkdir()
    git(tmp_path / "repository", "init", "-q")
    refused(world, tmp_path / "repository", "without a commit")
    (tmp_path / "file").write_text("")
    world.run(tmp_path / "file", code=3)
    (tmp_path / "empty").mkdir()
    world.fetch(tmp_path / "empty")


def test_files_that_came_while_it_was_stopped(world: World, tree: Path) -> None:
    assert stopped(world, tree, 4)
    (tree / "README.md").write_text("own work\n")
    refused(world, tree, "README.md")


def test_a_file_that_comes_during_the_download(world: World, tree: Path) -> None:
    with stalled(world, tree) as run:
        (tree / "README.md").write_text("own work\n")
        run.release.set()
        output = read_rest(run.running)
    assert run.running.returncode == 3
    assert "README.md is in the way" in output
    assert (tree / "README.md").read_text() == "own work\n"
    (tree / "README.md").unlink()
    world.route(f"file://{world.served}")
    world.fetch(tree)


def test_two_at_once(world: World, tree: Path) -> None:
    with stalled(world, tree) as first:
        assert "another run" in world.run(tree, code=3).stderr
        first.release.set()
        output = read_rest(first.running)
    assert first.running.returncode == 0, output
    world.check(tree)


NO_GIT = """#!/bin/sh
case "$*" in *hash-object*) exec {git} "$@" ;; esac
echo git version 2.11.0
"""


def test_a_git_that_does_nothing(world: World, tmp_path: Path) -> None:
    path = programs.script(tmp_path / "bin" / "git", NO_GIT.format(git=shutil.which("git")))
    search = f"{path.parent}{os.pathsep}{os.environ['PATH']}"
    done = world.run(tmp_path / "t", code=4, PATH=search)
    assert "git reports no error, but has not checked it out" in done.stderr
    assert "Traceback" not in done.stderr
