"""What a rebuild finds, needs and says, without making anything."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support import command
from support.wheelhouse import PIN, PROVENANCE, Fake

from patchgen.core.library import origin
from patchgen.core.source.places import Places
from patchgen.core.wheel import compare, provenance, rebuild
from patchgen.core.wheel.compare import Kind
from patchgen.core.wheel.rebuild import (
    KINDS,
    Site,
    attestation,
    causes,
    check_output,
    diffoscope,
    find,
    find_needs,
)
from patchgen.core.wheel.rebuild.causes import Cause
from patchgen.core.wheel.rebuild.target import LIBRARIES, Target
from patchgen.errors import FileError, OptionsError
from patchgen.extras.lab import simulator
from patchgen.extras.lab.client import mends
from patchgen.system import statement
from patchgen.system.files import measure
from patchgen.system.statement import Provenance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from patchgen.system.checks import Check

TOOLCHAIN = {"compiler": "/usr/bin/c++", "programs": {"c++": "c++ 1.2.3"}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A SWITCHML_HOME with a provenance as of the simulator."""
    home = tmp_path / "home"
    (home / "lib").mkdir(parents=True)
    (home / "lib" / origin.ARCHIVE).write_bytes(b"archive")
    described = Provenance(
        kind=origin.SIMULATOR,
        subjects=(
            replace(measure(str(home / "lib" / origin.ARCHIVE)), name="lib/" + origin.ARCHIVE),
        ),
        request={"debug": True, "cxxflags": "-O0", "variables": {"CXXFLAGS": "-g"}},
        resolved={"toolchain": TOOLCHAIN},
        materials=(statement.describe_file(simulator.NAME, simulator.digest_source()),),
    )
    statement.write(str(home / "lib" / origin.ARCHIVE), described)
    return home


def site(work: Path, **environ: str) -> Site:
    return Site(
        work=str(work), scratch=str(work), cache=str(work / "the cache"),
        environ={"PATH": os.environ["PATH"], **environ},
        pins=(PIN,), pytorch=None, python=None, lock=str(work / "conda-lock.yml"), source=None,
        places=Places(["/mirror"], ["/clone"]),
    )  # fmt: skip


def made(kind: str, **request: object) -> Provenance:
    given = {"flags": ["DPDK"], "homes": {"SWITCHML_HOME": "/opt/s"}, "variables": {}, **request}
    torch = {"python": "/usr/bin/python3"}
    resolved = {"toolchain": TOOLCHAIN, "torch": torch}
    return Provenance(kind, (measure(__file__),), given, resolved, ())


def found(kind: str, checks: list[Check]) -> Check:
    (check,) = (one for one in checks if one.name == kind)
    return check


def test_a_home_or_its_archive_is_named(home: Path, tmp_path: Path) -> None:
    archive = home / "lib" / origin.ARCHIVE
    for given in (home, archive):
        target = find(str(given), None, tuple(KINDS))
        assert target.path == str(archive)
        assert target.files == {"lib/" + origin.ARCHIVE: str(archive)}
    record = shutil.move(f"{archive}{statement.SUFFIX}", tmp_path / "record")
    with pytest.raises(OptionsError, match=r"has no provenance\.json beside it; give it with"):
        find(str(home), None, tuple(KINDS))
    assert find(str(home), str(record), tuple(KINDS)).path == str(archive)
    with pytest.raises(FileError, match="no such file; name a wheel, a graft or a client"):
        find(str(tmp_path), None, tuple(KINDS))


def test_what_is_refused_by_its_provenance(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    other.touch()
    record = str(home / origin.NAME)
    with pytest.raises(OptionsError, match="is of a client library; name its"):
        find(str(other), record, tuple(KINDS))
    with pytest.raises(OptionsError, match=r"is of a simulator, which this .* it makes graft"):
        find(str(home), record, ("graft",))
    with pytest.raises(OptionsError, match="has the files themselves; give another directory"):
        check_output(find(str(home), None, tuple(KINDS)), str(home))
    (tmp_path / "out" / "lib").mkdir(parents=True)
    moved = shutil.move(record, tmp_path / "out" / origin.NAME)
    with pytest.raises(OptionsError, match="has the files themselves; give another directory"):
        check_output(find(str(home), str(moved), tuple(KINDS)), str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("externalParameters", "cxxflags", 1),
        ("externalParameters", "debug", None),
        ("externalParameters", "variables", {"A": 1}),
        ("externalParameters", "cxxflags", "-DA=\0"),
        ("externalParameters", "cxxflags", "\ud800"),
        ("externalParameters", "cxxflags", "\x1b]0;title\a"),
        ("externalParameters", "variables", {"LD_PRELOAD": "/library.so"}),
        ("externalParameters", "variables", {"CXX": "g++\0"}),
        ("externalParameters", "flags", ["HELP"]),
        ("externalParameters", "flags", 1),
        ("externalParameters", "homes", {"HELP": "/"}),
        ("externalParameters", "homes", 1),
        ("internalParameters", "toolchain", {"compiler": "c++", "programs": {}}),
        ("internalParameters", "toolchain", "gcc"),
        ("internalParameters", "client", {}),
    ],
)
def test_a_value_of_the_provenance_that_cannot_be_used_is_named(
    section: str, name: str, value: object, home: Path
) -> None:
    record = home / origin.NAME
    said = json.loads(record.read_text())
    said["predicate"]["buildDefinition"][section][name] = value
    record.write_text(json.dumps(said))
    with pytest.raises(OptionsError, match=rf"has no usable re\w+\.{name}\b.*; give the file as"):
        find(str(home), None, tuple(KINDS))


@pytest.mark.parametrize("name", ["/etc/graft.so", "../graft.so", "", "graft\0.so", "\udfff"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, home: Path) -> None:
    record = home / origin.NAME
    said = json.loads(record.read_text())
    said["subject"][0]["name"] = name
    record.write_text(json.dumps(said))
    with pytest.raises(OptionsError, match="has no usable subject; give the file"):
        find(str(home), None, tuple(KINDS))


def complete() -> dict[str, Provenance]:
    """A provenance of each kind, with all that a rebuild reads."""
    torch = {"python": sys.executable, "version": "1", "commit": "c", "root": "/r",
             "python_version": "3.11"}  # fmt: skip
    python = {"python": "/p", "python_version": "3", "soabi": "s", "packages": {"numpy": "1"}}
    toolchain = {**TOOLCHAIN, **python}
    resolved: dict[str, object] = {"toolchain": toolchain, "torch": torch}
    pin = {"name": PIN.name, "commit": PIN.commit}
    materials = (
        statement.describe_commit("pytorch", "", "1" * 40),
        statement.describe_commit("p4app-switchML", "", "2" * 40),
    )
    given: dict[str, dict[str, object]] = {
        "simulator": {"debug": True, "cxxflags": "-g"},
        "client": {"mends": ["stop"], "cxx11_abi": None},
        "plugin": {"bundle": False},
        "graft": {"pin": pin},
    }
    found = {
        kind: replace(made(kind, **request), resolved=resolved, materials=materials)
        for kind, request in given.items()
    }
    client = {**resolved, "client": found["simulator"].statement()}
    found["plugin"] = replace(found["plugin"], resolved=client)
    wheel = replace(PROVENANCE, toolchain=toolchain, without=("a",), accepted=("b",))
    return {**found, "wheel": provenance.describe(wheel)}


def damaged(value: Any) -> Iterator[Any]:
    """Copies of a value, each with another value in one place."""
    others: tuple[Any, ...] = (
        None,
        1,
        math.inf,
        "\0",
        "\ud800",
        [],
        ["\x1b"],
        {"a": 1},
        {"\0": ""},
    )
    yield from others
    if isinstance(value, dict):
        for key, one in value.items():
            yield {name: other for name, other in value.items() if name != key}
            yield from ({**value, key: other} for other in damaged(one))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in damaged(one))


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_provenance_says_is_refused_or_can_be_passed_on(
    kind: str, tmp_path: Path
) -> None:
    whole, here, record = complete()[kind], site(tmp_path), tmp_path / "record.json"
    target = tmp_path / (origin.ARCHIVE if kind in LIBRARIES else whole.subjects[0].name)
    target.touch()
    refused: list[str] = []
    taken = 0
    for said in (whole.statement(), *damaged(json.loads(whole.content()))):
        record.write_text(json.dumps(said))
        try:
            given = find(str(target), str(record), tuple(KINDS)).provenance
        except OptionsError as error:
            refused.append(str(error))
            continue
        taken += 1
        words = KINDS[given.kind].command(given, here, "out")
        for text in (*words, *here.environment(given).values()):
            assert b"\0" not in os.fsencode(text)
        causes.find(whole, given)
    assert taken > 50
    assert all(line.isprintable() for line in refused)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("arguments", [
    ("nowhere",), ("home", "-o", "home"), ("home", "--provenance", "bad.json"),
    ("home", "--python", "nowhere"), ("home", "--work", "bad.json"), ("home", "-o", "bad.json"),
    ("home", "--pytorch", "nowhere"), ("home", "--reference", "nowhere"),
])  # fmt: skip
def test_bad_input_is_told_in_two_lines_and_nothing_is_written(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "bad.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    done = command.run("rebuild", *arguments, cwd=tmp_path)
    assert done.returncode in {2, 5}, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    message = done.stderr.partition("rror: ")[2]
    assert 0 < len(message.splitlines()) <= 2
    assert sorted(tmp_path.rglob("*")) == before


def test_another_compiler_is_told_and_another_interpreter_required(
    home: Path, tmp_path: Path
) -> None:
    target = find(str(home), None, tuple(KINDS))
    checks = find_needs(target, site(tmp_path))
    here = subprocess.check_output(["c++", "--version"], text=True).splitlines()[0]
    compiler = found("compiler", checks)
    assert compiler.problems[0] == f"c++: was c++ 1.2.3, here {here}"
    assert not compiler.required
    assert [check.name for check in checks if not check.ok] == ["compiler"]
    lacking = found("compiler", find_needs(target, site(tmp_path, CXX="nothing")))
    assert lacking.problems == ("nothing: no such compiler; install one or set CXX",)
    assert lacking.required


def test_a_changed_file_and_another_tool_are_told(home: Path, tmp_path: Path) -> None:
    record = statement.read(str(home / origin.NAME))
    (home / "lib" / origin.ARCHIVE).write_bytes(b"other")
    older = replace(
        record,
        builder={"switchml-patch": "0.0.1", "zlib": record.builder["zlib"]},
        materials=(statement.describe_file(simulator.NAME, "0" * 64),),
    )
    checks = find_needs(Target(str(home / "lib" / origin.ARCHIVE), "", older), site(tmp_path))
    told = {check.name: " ".join(check.problems) for check in checks if not check.ok}
    assert "its SHA-256 is not that of its provenance" in told["files"]
    assert told["switchml-patch"].endswith("install switchml-patch 0.0.1")
    assert "has another simulator" in told["source"]
    assert not any(check.required for check in checks if not check.ok and check.name != "compiler")


def test_needs_of_a_wheel_that_are_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "torch.whl"
    wheel.touch()
    foreign = replace(
        PROVENANCE, pin=PIN._replace(name="v9", commit="9" * 40), commits={"": "9" * 40}
    )
    described = provenance.describe(foreign)
    here = replace(site(tmp_path), places=Places([str(tmp_path)]))
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "file")
    checks = find_needs(Target(str(wheel), "", described), here)
    lacking = {one.name: one.problems[-1] for one in checks if one.required and not one.ok}
    assert lacking == {
        "pin": f"no pin of commit {'9' * 40}; give its file with --pytorch FILE",
        "pytorch commit": "give a clone with --reference or --mirror",
        "lock": f"{tmp_path}/conda-lock.yml: is not the one; give the lock with sha256 {'4' * 64} "
        "with --lock FILE",
        "client library": "not there, and no provenance names its origin; put it into "
        "/opt/s\\xff again",
    }  # fmt: skip


def test_the_environment_has_the_recorded_variables(tmp_path: Path) -> None:
    own = {"CXXFLAGS": "-O9", "CMAKE_PREFIX_PATH": "/x", "DPDK": "1", "SWITCHML_HOME": "/y"}
    described = made("plugin", variables={"CXXFLAGS": "-g", "CXX": "clang++"})
    found = site(tmp_path, **own, CMAKE_CXX_COMPILER_LAUNCHER="ccache").environment(described)
    assert found == {
        "PATH": os.environ["PATH"], "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
        "CXXFLAGS": "-g", "CXX": "clang++",
    }  # fmt: skip
    assert site(tmp_path, CXX="g++").environment(described)["CXX"] == "g++"
    resolved = {**described.resolved, "toolchain": {**TOOLCHAIN, "compiler": shutil.which("g++")}}
    plain = replace(made("plugin"), resolved=resolved)
    assert site(tmp_path).environment(plain)["CXX"] == shutil.which("g++")


def test_the_compiler_of_a_wheel_without_a_lock(tmp_path: Path) -> None:
    """The user's, else the recorded one; that of a lock is nobody's choice."""
    variables = {"CXX": "g++ -m64", "USE_CUDA": "0"}
    toolchain = {**TOOLCHAIN, "python": "/usr/bin/python3"}
    locked = provenance.describe(replace(PROVENANCE, variables=variables, toolchain=toolchain))
    free = provenance.describe(
        replace(PROVENANCE, variables=variables, toolchain=toolchain, lock_sha256=None)
    )
    path = {"PATH": os.environ["PATH"]}
    assert site(tmp_path, CXX="clang++").environment(locked) == path
    assert "CXX=g++ -m64" in KINDS["wheel"].command(locked, site(tmp_path), "out")
    assert site(tmp_path).environment(free) == {**path, "CXX": "g++ -m64"}
    assert site(tmp_path, CXX="clang++").environment(free) == {**path, "CXX": "clang++"}
    words = KINDS["wheel"].command(free, site(tmp_path), "out")
    assert [word for word in words if "=" in word] == ["USE_CUDA=0"]


def test_the_commands(tmp_path: Path) -> None:
    here = site(tmp_path)
    ids = [mend.id for mend in mends.read_shipped()]
    client = made("client", mends=ids[1:], cxx11_abi=False, homes={"GRPC_HOME": "/g"})
    cache = str(tmp_path / "the cache")
    words = KINDS["client"].command(client, here, "out")
    assert words == [
        "client", "build", "-o", "out", "--dpdk", "--grpc-home", "/g", "--cache", cache,
        "--without", ids[0], "--cxx11-abi", "0", "--mirror", "/mirror", "--reference", "/clone",
    ]  # fmt: skip
    words = KINDS["plugin"].command(made("plugin", bundle=True), here, "out")
    assert words == [
        "plugin", "build", "-o", "out", "--dpdk", "--switchml-home", "/opt/s",
        "--torch", "/usr/bin/python3", "--cache", str(tmp_path / "cache"), "--bundle",
    ]  # fmt: skip
    wheel = provenance.describe(
        replace(
            PROVENANCE,
            variables={"CMAKE_PREFIX_PATH": "/env", "USE_CUDA": "0", "VERBOSE": "1"},
            accepted=("no-blas",),
            without=("third_party/x",),
        )
    )
    words = KINDS["wheel"].command(wheel, here, "out")
    settings = words[words.index("--set") : words.index("--mirror")]
    assert settings == [
        "--set", "USE_CUDA=0", "--accept", "no-blas", "--without", "third_party/x",
    ]  # fmt: skip
    assert words[words.index("--lock") + 1] == here.lock
    assert words[:3] == ["build", "--pytorch", "v1.7.1"]


def archive(path: Path, **objects: bytes) -> str:
    """An archive of objects."""
    files = []
    for name, content in objects.items():
        (path.parent / f"{name}.o").write_bytes(content)
        files.append(f"{name}.o")
    path.unlink(missing_ok=True)
    subprocess.run(["ar", "qcDS", path, *files], cwd=path.parent, check=True)
    return str(path)


def test_objects_of_archives_are_compared(tmp_path: Path) -> None:
    long = "a_name_that_is_longer_than_sixteen"
    given = {"one": b"1", long: b"22", "three": b"333"}
    left = archive(tmp_path / "left.a", **given)
    assert compare.compare_files({"x.a": left}, {"x.a": left}) == []
    right = archive(tmp_path / "right.a", **{**given, long: b"23", "four": b""})
    differences = compare.compare_files({"x.a": left, "y": left}, {"x.a": right})
    assert [(one.path, one.kind, one.offset) for one in differences] == [
        (f"x.a({long}.o)", Kind.CONTENTS, 1),
        ("x.a(four.o)", Kind.PRESENCE, None),
        ("y", Kind.PRESENCE, None),
    ]
    content = bytearray((tmp_path / "left.a").read_bytes())
    content[8 + 16] ^= 1  # the time of its first part
    (tmp_path / "time.a").write_bytes(content)
    (one,) = compare.compare_files({"x.a": left}, {"x.a": str(tmp_path / "time.a")})
    assert (one.path, one.kind) == ("x.a", Kind.CONTENTS)
    (tmp_path / "cut.a").write_bytes(content[:70])
    assert compare.compare_files({"x.a": left}, {"x.a": str(tmp_path / "cut.a")})


def test_a_wheel_with_a_changed_byte_is_compared_as_a_file(tmp_path: Path) -> None:
    (left, right) = (Fake("a", "1").write(tmp_path / name) for name in ("left", "right"))
    described = replace(made("wheel"), subjects=(measure(str(left)),))
    target = Target(str(left), "", described)
    assert rebuild._compare(target, str(right)) == []
    content = bytearray(left.read_bytes())
    place = len(content) // 3
    content[place] ^= 1
    left.write_bytes(content)
    (one,) = rebuild._compare(target, str(right))
    assert (one.path, one.kind, one.offset) == (left.name, Kind.CONTENTS, place)
    assert rebuild._find_pairs(target.files, {left.name: str(right)}) == ((str(left), str(right)),)


def test_an_attestation_has_both_digests(home: Path) -> None:
    target = find(str(home), None, tuple(KINDS))
    said: Any = attestation.describe(target, target.provenance, target.files)
    subject = [statement.describe_file(one.name, one.sha256) for one in target.provenance.subjects]
    assert said["subject"] == said["predicate"]["rebuilt"] == subject
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "urn:switchml-patch:reproduced:v1"
    assert said["predicate"]["result"] == "reproduced"
    assert said["predicate"]["provenance"]["digest"]["sha256"] == measure(target.record).sha256
    assert json.loads(statement.dump(said)) == said


def test_values_that_are_others_now_are_causes() -> None:
    client = made("simulator", debug=True).statement()
    left = made("plugin", variables={"CXX": "g++", "CFLAGS": "-g"}, bundle=True)
    left = replace(left, resolved={**left.resolved, "client": client},
                   materials=(statement.describe_file("lib.a", "0" * 64),))  # fmt: skip
    assert causes.find(left, left) == []
    other = made("simulator", debug=False).statement()
    right = replace(
        left, request={**left.request, "variables": {"CXX": "clang++"}},
        resolved={**left.resolved, "client": other},
        materials=(statement.describe_file("lib.a", "1" * 64),),
    )  # fmt: skip
    assert causes.find(left, right) == [
        Cause("client library: request.debug", "true", "false"),
        Cause("material lib.a", "0" * 64, "1" * 64),
        Cause("request.variables.CFLAGS", "-g", None),
        Cause("request.variables.CXX", "g++", "clang++"),
    ]


# Diffoscope, in whose place is a program of the test


def described(directory: Path, program: str, *pairs: tuple[str, str]) -> list[str]:
    path = directory / "diffoscope"
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)
    environ = {"PATH": f"{directory}:/usr/bin:/bin"}
    return list(diffoscope.describe(pairs or [("one", "two")], environ))


def test_diffoscope_is_asked_for_each_pair(tmp_path: Path) -> None:
    told = described(tmp_path, 'shift 2; echo "$@"; exit 1', ("a", "b"), ("c", "d"))
    assert told == ["a b", "c d"]
    assert described(tmp_path, 'printf "\\033[2J\\377\\n"; exit 1') == [r"\x1b[2J\xff"]


def test_a_long_report_of_diffoscope_is_cut(tmp_path: Path) -> None:
    *shown, last = described(tmp_path, "yes 0123456789 | head -n 100000; exit 1")
    assert {*shown} == {"0123456789"}
    assert len("".join(shown)) <= 1 << 16
    left = 100_000 - len(shown)
    assert last.startswith(f"and {left} more lines; run: {tmp_path}/diffoscope ")


def test_a_diffoscope_that_fails_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert described(tmp_path, "echo gone >&2; exit 2") == ["diffoscope failed: gone"]
    assert described(tmp_path, "kill -KILL $$") == ["diffoscope failed: died of SIGKILL"]
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(diffoscope, "_SECONDS", 0.5)
    told = described(tmp_path, "touch $TMPDIR/unpacked; exec sleep 1000")
    assert told == ["diffoscope: not done after 0.5 s"]
    assert os.listdir(place) == []
    told = list(diffoscope.describe([("one", "two")], {"PATH": str(place)}))
    assert told == ["diffoscope is not installed; it would show the difference within"]
