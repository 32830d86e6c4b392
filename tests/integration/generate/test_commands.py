"""Where output goes and how the commands end."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import miniature
from support.pages import all_blocks
from support.trees import FLAGS, Tree, commit, generate, git, tool
from support.waiting import captured

from patchgen.core.library import homes
from patchgen.core.patch import pins, render
from patchgen.core.patch.tree import apply as apply_to_tree
from patchgen.options import resolve

GONE = "error: the current directory no longer exists; change to another\n"


def test_generate_writes_to_the_given_path(tmp_path: Path) -> None:
    tool("generate", cwd=tmp_path)
    default = tmp_path / "build" / "switchml_pytorch.patch"
    done = tool("generate", "-o", "-", cwd=tmp_path)
    assert done.stdout.encode() == default.read_bytes()
    data = json.loads(tool("generate", "--json", "--builddir", "b", cwd=tmp_path).stdout)
    assert data["patch"] == str(tmp_path / "b" / "switchml_pytorch.patch")
    assert Path(data["patch"]).read_bytes() == default.read_bytes()
    (warning,) = data["warnings"]
    assert warning == (
        f"SWITCHML_HOME: no {tmp_path}/build/include/switchml/context.h; "
        f"no {tmp_path}/build/lib/libswitchml-client.a"
    )
    tool("generate", "-o", "a/b/x.patch", cwd=tmp_path)
    assert (tmp_path / "a" / "b" / "x.patch").read_bytes() == default.read_bytes()
    tool("generate", "-o", str(tmp_path), cwd=tmp_path, code=5)
    tool("generate", "-o", "/proc/nowhere/x", cwd=tmp_path, code=5)
    tool("generate", "--json", "-o", "-", cwd=tmp_path, code=2)
    tool("generate", "--pytorch", "2.0", cwd=tmp_path, code=2)


def test_the_bytes_of_a_patch_depend_on_its_homes(tmp_path: Path) -> None:
    """The directory that it is written in counts where a home is not named, and only there."""
    here, there = tmp_path / "here", tmp_path / "there"
    root, home = ("--dev-root", "/opt"), ("--switchml-home", "/opt/switchml")
    patches = {}
    for place in (here, there):
        place.mkdir()
        for options in ((), root, home, ("--dpdk", *home), ("--dpdk", *home, *root)):
            done = tool("generate", *options, "--builddir", place.name, "-o", "-", cwd=place)
            patches[place, options] = done.stdout
    for options in (root, home, ("--dpdk", *home, *root)):
        assert patches[here, options] == patches[there, options]
    for options in ((), ("--dpdk", *home)):
        one, other = patches[here, options], patches[there, options]
        assert one != other
        assert one.count(str(here)) == one.count(f"{here}/build") + one.count(f"{here}/third_party")


def test_missing_files_of_homes_are_named_with_what_to_do(tmp_path: Path) -> None:
    shown = tool("generate", "--dpdk", cwd=tmp_path).stderr.splitlines()
    assert [line.split()[:2] for line in shown[:3]] == [
        ["warning:", f"{name}:"] for name in ("SWITCHML_HOME", "DPDK_HOME", "GRPC_HOME")
    ]
    assert shown[3] == homes.ADVICE.format("SWITCHML_HOME, DPDK_HOME, GRPC_HOME")


def test_the_readme_names_all_homes_for_the_same_bytes(tmp_path: Path) -> None:
    (line,) = [line for one in all_blocks() for line in one.commands if "--dpdk-home" in line]
    patches = set()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        tool(*shlex.split(line)[1:], cwd=tmp_path / name)
        patches.add((tmp_path / name / "build" / "switchml_pytorch.patch").read_bytes())
    assert len(patches) == 1


REFUSED = {
    ">&-": "Bad file descriptor",
    ">/dev/full": "No space left on device",
    ">&$unread": "Broken pipe",
}


@pytest.mark.parametrize("stream", REFUSED)
@pytest.mark.parametrize("arguments", ["generate -o -", "--help", "pins", "pins --json"])
def test_a_standard_output_that_cannot_be_written(
    tmp_path: Path, arguments: str, stream: str
) -> None:
    done = redirected(stream, tmp_path, *arguments.split())
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.endswith(f"error: the output cannot be written: {REFUSED[stream]}\n")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("stream", REFUSED)
def test_messages_that_cannot_be_written_do_not_stop_a_command(tmp_path: Path, stream: str) -> None:
    patch = tool("generate", "-o", "-", cwd=tmp_path).stdout
    done = redirected(f"2{stream}", tmp_path, "generate", "-o", "-")
    lost = 0 if stream == ">&-" else 5
    assert (done.returncode, done.stdout, done.stderr) == (lost, patch, "")
    assert redirected(f"<&- {stream} 2{stream}", tmp_path, "generate", "-o", "x").returncode == lost
    assert (tmp_path / "x").read_text() == patch
    assert redirected(f"2{stream}", tmp_path, "pins").returncode == 0
    assert redirected(f"2{stream}", tmp_path, "status", "none").returncode == 3


def redirected(streams: str, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command; what it writes into `$unread` is read by nobody."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reads, unread = os.pipe()
    os.close(reads)
    command = ["bash", "-c", f'exec "$@" {streams}', "bash", sys.executable, "-m", "patchgen"]
    with open(unread, "wb"):
        environ["unread"] = str(unread)
        return captured([*command, *arguments], cwd=directory, env=environ, pass_fds=[unread])


@pytest.mark.parametrize(
    "arguments",
    [
        "client build -o file/x",
        "client patch -o file/x",
        "demo -o file/x",
        "env create -o file/x",
        "env lock -o file/x",
        "generate -o file/x",
        "graft build -o file/x",
        f"pins make . --layout c10d-lib --name v0 --commit {miniature.COMMIT} -o file/x",
        "plugin build -o file/x",
        "run --report file/x -- true",
        "simulator install -o file/x",
        "simulator serve --workers 2 --json file/x",
        "switch --port memif:x --json file/x",
    ],
)
def test_what_cannot_be_written_is_reported_before_anything_is_done(
    tmp_path: Path, arguments: str
) -> None:
    (tmp_path / "file").touch()
    done = tool(*arguments.split(), cwd=tmp_path, code=5)
    assert (done.stdout, done.stderr) == ("", "error: file/x: Not a directory\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("words", "begun", "name"),
    [
        ("generate --pytorch", "v2", "v2.6.0"),
        ("graft build --pytorch", "v2", "v2.6.0"),
        ("pins make --layout", "torch-csrc-2", "torch-csrc-2.8"),
        ("client build --without", "comp", "completions"),
    ],
)
def test_names_are_completed(words: str, begun: str, name: str, tmp_path: Path) -> None:
    environ = {
        **os.environ, "_SWITCHML_PATCH_COMPLETE": "bash_complete",
        "COMP_WORDS": f"switchml-patch {words} {begun}", "COMP_CWORD": str(words.count(" ") + 2),
    }  # fmt: skip
    code = "from patchgen.cli import main; main(prog_name='switchml-patch')"
    done = captured([sys.executable, "-c", code], env=environ, cwd=tmp_path, check=True)
    found = done.stdout.splitlines()
    assert f"plain,{name}" in found
    assert all(line.startswith(f"plain,{begun}") for line in found)


def in_a_directory_that_is_gone(
    directory: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    script = 'mkdir "$0" && cd "$0" && rmdir "$0" && exec "$@"'
    command = ["sh", "-c", script, str(directory), sys.executable, "-m", "patchgen", *arguments]
    return captured(command)


def test_a_current_directory_that_is_gone(tmp_path: Path) -> None:
    command = ["generate", "-o", "-"]
    done = in_a_directory_that_is_gone(tmp_path / "gone", *command)
    assert done.returncode == 2
    assert "give an absolute path" in done.stderr
    done = in_a_directory_that_is_gone(tmp_path / "gone", *command, "--dev-root", "/d")
    assert done.returncode == 0


@pytest.mark.parametrize(
    "command",
    ["run -- true", "demo", "status x", "source -o x", "simulator install -o x",
     "client source", "run --report x -- true",
     "plugin build -o x --dev-root /d", "check --dev-root /d --work w",
     "build --dev-root /d --work w", "build --dev-root /d --work w --dry-run"],
)  # fmt: skip
def test_what_needs_a_current_directory_says_so(tmp_path: Path, command: str) -> None:
    done = in_a_directory_that_is_gone(tmp_path / "gone", *command.split())
    assert (done.returncode, done.stderr) == (2, GONE)


def test_pins_are_made_and_listed(tree: Tree, tmp_path: Path) -> None:
    """What building the pin of the layout needs is not taken over."""
    output, like = str(tmp_path / "made.json"), tmp_path / "like.json"
    (other, *_) = (pin for pin in pins.shipped() if pin.grafts)
    like.write_text(pins.to_json(tree.pin._replace(grafts=other.grafts, recipe=other.recipe)))
    given = ("pins", "make", str(tree.root), "--layout", str(like), "--name")
    elsewhere = (*given, "v0.0.1", "--commit", miniature.COMMIT)
    assert "not the top of a git repository; clone" in tool(*elsewhere, code=3).stderr
    commit(tree.root)
    assert f", not {miniature.COMMIT}\n" in tool(*elsewhere, code=3).stderr
    head = git(tree.root, "rev-parse", "HEAD")
    tool(*given, "v0.0.1", "--commit", head, "-o", output)
    assert pins.load(output) == tree.pin._replace(commit=head)
    printed = tool(*given, "v0.1.0", "--commit", head, code=3).stderr
    assert printed.endswith("version.txt says 0.0, not 0.1\n")
    (tree.root / ".git/HEAD").write_text("nonsense\n")
    assert "cannot be checked: " in tool(*given, "v0.0.1", "--commit", head, code=3).stderr
    names = [pin["name"] for pin in json.loads(tool("pins", "--json").stdout)]
    assert names == [pin.name for pin in pins.shipped()]


def test_apply_tells_which_options_change(tree: Tree) -> None:
    tree.run("apply", *FLAGS)
    before = tree.snapshot()
    output = tree.run("apply", "--switchml-home", "/other", "--dry-run")
    assert (
        "  was patched with DPDK=1 MLX5=1 SWITCHML_HOME='/opt/dev root/build' GRPC_HOME=" in output
    )
    assert "  now it is with   SWITCHML_HOME=/other\n" in output
    assert "would be patched (v0.0.1), 1 file\n" in output
    assert tree.snapshot() == before
    patch = generate(tree, "--switchml-home", "/other")
    command = [sys.executable, "-m", "patchgen", "apply", str(tree.root), "--patch", "-"]
    with open(patch, "rb") as file:
        done = captured([*command, "--pytorch", tree.pin_file], stdin=file, check=True)
    assert "  now it is with   SWITCHML_HOME=/other\n" in done.stderr
    assert "already patched" in tree.run("apply", "--patch", patch, "--dry-run")


def test_a_tree_that_is_partly_patched_has_a_few_lines(tree: Tree) -> None:
    """And an error about the tree comes alone, without what the homes lack."""
    tree.run("apply", *FLAGS)
    tree.root.joinpath(tree.pin.files[0].path + ".switchml-tmp").touch()
    lines = tree.run("status", code=3).splitlines()
    assert len(lines) == 5, lines
    assert lines[2].endswith(f" {len(render.new_paths(tree.pin))} added")
    (tree.root / tree.pin.files[0].path).write_text("edited\n")
    assert "warning" not in tree.run("apply", *FLAGS, code=3)


def test_apply_is_a_library_call_too(tree: Tree) -> None:
    result = apply_to_tree(str(tree.root), resolve({}, {}, "/"), (tree.pin,))
    assert result.pin == tree.pin
    assert len(result.changed) == len(tree.pin.files) + len(render.new_paths(tree.pin))
