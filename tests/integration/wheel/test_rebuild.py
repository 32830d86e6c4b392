"""Files that are made again from their provenance alone, and what is said where they differ."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import client_source, command, unprivileged
from support.simulator import FLAGS
from support.torch import GRAFT, PLUGIN_HERE
from support.waiting import captured

from patchgen.core.library import homes, origin

ATTESTED = ".reproduced.json"
SMALL_CLIENT = Path(__file__).parents[2] / "payload" / "small_client.py"


def tool(*words: str | Path, code: int = 0, env: dict[str, str] | None = None) -> str:
    done = command.run(*words, env={**os.environ, **(env or {})})
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def damage(archive: Path) -> None:
    """Changes one byte in the last object of an archive, which can be linked all the same."""
    content = bytearray(archive.read_bytes())
    content[content.rindex(b"GCC: (")] ^= 1  # what the compiler says of itself
    archive.write_bytes(content)


def contents(root: Path) -> dict[str, str]:
    """Digests of the files that are made, by their paths."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and not path.name.endswith((ATTESTED, ".provenance.json"))
    }


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that another user reaches."""
    with unprivileged.directory() as made:
        yield made


@pytest.fixture(scope="module")
def stranger(place: Path) -> Path:
    """An interpreter with our packages, which another user can run."""
    return unprivileged.interpreter(place / "python")


def rebuilt_by_another_user(stranger: Path, *words: str | Path) -> tuple[str, Path]:
    """What is said, and the directory of what is made; nothing compiled of ours is used."""
    with unprivileged.directory() as scratch:
        os.chmod(scratch, 0o777)  # noqa: S103  # the other user's own
        environ = {"PATH": os.environ["PATH"], "HOME": str(scratch), "TMPDIR": str(scratch)}
        command = [stranger, "-m", "patchgen", "rebuild", *words]
        user = {"umask": 0o027, **unprivileged.identity()}
        done = captured(command, cwd=scratch, env=environ, **user)
        assert done.returncode == 0, done.stdout + done.stderr
        kept = Path(str(stranger.parents[1]) + "-" + os.path.basename(scratch))
        shutil.copytree(scratch / "rebuilt", kept)
    return done.stdout, kept


# The simulator


@pytest.fixture(scope="module")
def installed(place: Path) -> Path:
    installed = place / "a home"
    tool("simulator", "install", "-o", installed, env={"CXXFLAGS": FLAGS})
    return installed


@pytest.mark.rebuild
def test_the_simulator_by_another_user(installed: Path, stranger: Path) -> None:
    output, made = rebuilt_by_another_user(stranger, installed)
    assert output.endswith("identical bytes\n")
    before = contents(installed)
    assert {name: before[name] for name in contents(made) if name != "switchml.cfg"} == {
        name: digest for name, digest in contents(made).items() if name != "switchml.cfg"
    }
    statement = json.loads((made / f"{homes.ARCHIVE}{ATTESTED}").read_text())
    assert {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}[
        homes.ARCHIVE
    ] == before[homes.ARCHIVE]
    assert statement["predicate"]["rebuilt"] == statement["subject"]


def test_a_changed_byte_of_the_library_is_named(installed: Path, tmp_path: Path) -> None:
    changed, output = tmp_path / "home", tmp_path / "rebuilt"
    shutil.copytree(installed, changed)
    tool("rebuild", changed, "-o", output)
    assert (output / f"{homes.ARCHIVE}{ATTESTED}").exists()
    damage(changed / homes.ARCHIVE)
    done = command.run("rebuild", changed, "-o", output)
    assert done.returncode == 6, done.stderr
    assert f"[-] files\n      {homes.ARCHIVE}: was " in done.stdout
    assert f"\n{homes.ARCHIVE}  contents from byte " in done.stdout
    assert done.stdout.endswith("\n1 file differs\n")
    pair = f"{changed}/{homes.ARCHIVE} {output}/{homes.ARCHIVE}"
    assert done.stderr.endswith(f"\nsee why with: diffoscope {pair}\n")
    assert not (output / f"{homes.ARCHIVE}{ATTESTED}").exists()  # of the rebuild before
    data = json.loads(tool("rebuild", changed, "-o", output, "--json", code=6))
    assert (data["identical"], data["attestation"]) == (False, None)
    assert [one["path"] for one in data["differences"]] == [homes.ARCHIVE]


def test_a_dry_run_makes_nothing(installed: Path, tmp_path: Path) -> None:
    words = ("rebuild", installed, "-o", tmp_path / "out", "--dry-run")
    assert tool(*words) == ""
    output = tool(*words, code=6, env={"CXX": "none"})
    assert output == "[ ] compiler\n      none: no such compiler; install one or set CXX\n"
    assert not (tmp_path / "out").exists()


# SwitchML's library, as small as that of the tests


@pytest.mark.parametrize(
    "other", [pytest.param(False, marks=pytest.mark.rebuild), True], ids=["pinned", "other"]
)
def test_a_client_library_from_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, other: bool
) -> None:
    repository = client_source.make(tmp_path / "mirror" / "p4lang+p4app-switchML")
    program = (sys.executable, str(SMALL_CLIENT), repository.commit)
    chosen = ("--commit", client_source.commit(repository.root, "more")) if other else ()
    home, mirror = tmp_path / "home", str(tmp_path / "mirror")
    monkeypatch.setenv("PYTHONPATH", str(SMALL_CLIENT.parents[1]))
    given = ("client", "build", "-o", str(home), "--cache", str(tmp_path / "cache"))
    subprocess.run([*program, *given, *chosen, "--debug", "--mirror", mirror], check=True)

    def again(name: str) -> subprocess.CompletedProcess[str]:
        words = ("rebuild", str(home), "-o", str(tmp_path / name), "--mirror", mirror)
        cache = ("--cache", str(tmp_path / f"cache of {name}"))
        return captured([*program, *words, *cache])

    done = again("one")
    assert (done.returncode, done.stdout) == (0, "identical bytes\n"), done.stderr
    assert contents(tmp_path / "one") == contents(home)
    damage(home / homes.ARCHIVE)
    assert f"\n{homes.ARCHIVE}  contents from byte " in again("two").stdout


def test_what_a_client_library_cannot_be_made_without(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "lib").mkdir(parents=True)
    (home / homes.ARCHIVE).write_bytes(b"archive")
    request: dict[str, Any] = {
        "flags": [], "fixes": ["no-such"], "homes": {}, "cxx11_abi": None, "variables": {},
    }  # fmt: skip
    words = ("rebuild", home, "-o", tmp_path / "out", "--cache", tmp_path / "cache")
    write_record(home, request)
    output = tool(*words, code=6)
    assert (
        "[ ] fixes\n      this switchml-patch has no no-such; install the recorded one\n" in output
    )
    request["fixes"] = []
    write_record(home, request)
    done = command.run(*words, env={**os.environ, "GIT_ALLOW_PROTOCOL": "file"})
    assert done.returncode == 4, done.stderr
    assert "p4app-switchML 012345678901:" in done.stderr  # the recorded one, which nobody has
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def write_record(home: Path, request: dict[str, Any]) -> None:
    """A provenance with the commit of no repository."""
    from patchgen.system import statement
    from patchgen.system.files import Artifact

    size = (home / homes.ARCHIVE).stat().st_size
    subject = Artifact(homes.ARCHIVE, size, contents(home)[homes.ARCHIVE])
    resolved = {"toolchain": {"compiler": "c++", "programs": {"c++": "c++ 1"}}}
    commit = statement.describe_commit("p4app-switchML", "file:///nowhere", "0123456789" * 4)
    record = statement.Provenance("client", (subject,), request, resolved, (commit,)).statement()
    (home / origin.NAME).write_text(json.dumps(record))


# The plugin and the graft


@pytest.fixture(scope="module")
def plugin(
    installed: Path, place: Path, torch_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A wheel of the plugin."""
    cache = tmp_path_factory.mktemp("cache")
    given = ("--torch", torch_python, "--switchml-home", installed, "--cache", cache)
    tool("plugin", "build", *given, "-o", place / "plugin", env=PLUGIN_HERE)
    (wheel,) = (place / "plugin").glob("*.whl")
    return wheel


@contextlib.contextmanager
def taken_away(installed: Path) -> Iterator[Path]:
    """Moves a directory away while the block lasts; another one may stand there then."""
    kept = installed.with_name("kept")
    installed.rename(kept)
    try:
        yield kept
    finally:
        shutil.rmtree(installed, ignore_errors=True)
        kept.rename(installed)


@pytest.mark.rebuild
def test_a_plugin_whose_library_has_changed_since(
    plugin: Path, installed: Path, tmp_path: Path
) -> None:
    """The record says what the library was made from; it is shown where it was."""
    with taken_away(installed) as kept:
        output = tool("rebuild", plugin, "-o", tmp_path / "none", code=6)
        assert f"shown there: make an empty directory {installed}\n" in output
        shutil.copytree(kept, installed)
        damage(installed / homes.ARCHIVE)
        output = tool("rebuild", plugin, "-o", tmp_path / "rebuilt")
    assert "here none; it will be made again and shown there\n" in output
    assert output.endswith("identical bytes\n")


@pytest.mark.rebuild
def test_a_plugin_of_a_library_that_is_not_what_it_says(
    plugin: Path, installed: Path, tmp_path: Path, torch_python: Path
) -> None:
    given = ("--torch", torch_python, "--switchml-home", installed, "--cache", tmp_path / "cache")
    with taken_away(installed) as kept:  # at the same path, so that ccache finds the objects
        shutil.copytree(kept, installed)
        damage(installed / homes.ARCHIVE)
        tool("plugin", "build", *given, "-o", tmp_path / "plugin", env=PLUGIN_HERE)
        wheel = tmp_path / "plugin" / plugin.name
        output = tool("rebuild", wheel, "-o", tmp_path / "rebuilt", code=6)
    assert f"client library: {homes.ARCHIVE}  contents from byte " in output


@pytest.fixture(scope="module")
def graft(installed: Path, place: Path, patched: Path, torch_python: Path) -> Path:
    made = place / "graft" / "a graft.so"
    made.parent.mkdir()
    given = ("--torch", torch_python, "--source", patched, "--switchml-home", installed)
    tool("graft", "build", *given, "-o", made, env=GRAFT)
    return made


@pytest.mark.rebuild
def test_a_graft_in_another_directory(graft: Path, patched: Path, tmp_path: Path) -> None:
    output = tmp_path / "rebuilt"
    printed = tool("rebuild", graft, "--source", patched, "-o", output)
    assert printed.endswith("identical bytes\n")
    assert contents(output) == contents(graft.parent)
    assert (output / f"{graft.name}{ATTESTED}").exists()
