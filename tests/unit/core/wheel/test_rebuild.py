"""What a rebuild reads, and finds to be lacking, without making anything."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import command
from support.wheelhouse import OPTIONS, PIN, Fake, describe, make_inputs

from patchgen.cli.rebuild import _list_kinds
from patchgen.core.library import origin
from patchgen.core.source.remotes import Remotes
from patchgen.core.wheel import rebuild
from patchgen.core.wheel.compare import Aspect
from patchgen.core.wheel.rebuild import (
    RebuildRequest,
    RecordedBuild,
    check_output,
    find,
    find_missing,
)
from patchgen.core.wheel.rebuild.recorded import LIBRARIES
from patchgen.core.wheel.sandbox import Sandbox
from patchgen.errors import FileError, OptionsError
from patchgen.extras.lab import simulator
from patchgen.system import statement
from patchgen.system.files import measure
from patchgen.system.statement import Provenance

KINDS = _list_kinds()
TOOLCHAIN = {"compiler": "/nowhere/c++", "programs": {"c++": "c++ 1.2.3"}}
PYTHON = {"python": "/usr/bin/python3", "python_version": "3", "soabi": "s", "packages": {"a": "1"}}
WHEEL: dict[str, Any] = {
    "options": replace(OPTIONS, switchml_home="/opt/s"),
    "toolchain": {**TOOLCHAIN, **PYTHON},
}


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
        request={"debug": True, "variables": {"CXXFLAGS": "-g"}},
        resolved={"toolchain": TOOLCHAIN},
        materials=(statement.describe_file(simulator.NAME, simulator.digest_source()),),
    )
    statement.write(str(home / "lib" / origin.ARCHIVE), described)
    return home


def means(work: Path, **environ: str) -> RebuildRequest:
    return RebuildRequest(
        work=str(work), cache=str(work / "the cache"),
        environ={"PATH": os.environ["PATH"], **environ},
        pins=(PIN,), python=None, lock=str(work / "conda-lock.yml"), source=None,
        remotes=Remotes([str(work)]),
    )  # fmt: skip


def made(kind: str, **request: object) -> Provenance:
    given = {"flags": ["DPDK"], "homes": {"SWITCHML_HOME": "/opt/s"}, "variables": {}, **request}
    return Provenance(kind, (measure(__file__),), given, {"toolchain": TOOLCHAIN}, ())


def test_a_home_or_its_archive_is_named(home: Path, tmp_path: Path) -> None:
    archive = home / "lib" / origin.ARCHIVE
    for given in (home, archive):
        original = find(str(given), None, KINDS)
        assert original.path == str(archive)
        assert original.list_files() == {"lib/" + origin.ARCHIVE: str(archive)}
    moved = shutil.move(f"{archive}{statement.SUFFIX}", tmp_path / "record")
    with pytest.raises(OptionsError, match=r"has no provenance\.json beside it; give it with"):
        find(str(home), None, KINDS)
    assert find(str(home), str(moved), KINDS).path == str(archive)
    with pytest.raises(FileError, match="no such file; name a wheel, a graft or a client"):
        find(str(tmp_path), None, KINDS)


def test_what_is_refused_by_its_provenance(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    other.touch()
    original = str(home / origin.NAME)
    with pytest.raises(OptionsError, match="belongs to a client library; name its"):
        find(str(other), original, KINDS)
    with pytest.raises(OptionsError, match=r"is of a simulator, which this .* it makes graft"):
        find(str(home), original, ("graft",))
    with pytest.raises(OptionsError, match="has the files themselves; give another directory"):
        check_output(find(str(home), None, KINDS), str(home))
    (tmp_path / "out" / "lib").mkdir(parents=True)
    moved = shutil.move(original, tmp_path / "out" / origin.NAME)
    with pytest.raises(OptionsError, match="has the files themselves; give another directory"):
        check_output(find(str(home), str(moved), KINDS), str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("externalParameters", "debug", None),
        ("externalParameters", "variables", {"A": 1}),
        ("externalParameters", "variables", {"CXXFLAGS": "-DA=\0"}),
        ("externalParameters", "variables", {"CXXFLAGS": "\ud800"}),
        ("externalParameters", "variables", {"CXXFLAGS": "\x1b]0;title\a"}),
        ("externalParameters", "variables", {"LD_PRELOAD": "/library.so"}),
        ("externalParameters", "variables", {"CXX": "g++\0"}),
        ("internalParameters", "toolchain", "gcc"),
        ("internalParameters", "client", {}),
    ],
)
def test_a_value_of_the_provenance_that_cannot_be_used_is_named(
    section: str, name: str, value: object, home: Path, tmp_path: Path
) -> None:
    original = home / origin.NAME
    report = json.loads(original.read_text())
    report["predicate"]["buildDefinition"][section][name] = value
    original.write_text(json.dumps(report))
    with pytest.raises(OptionsError, match=rf"has no usable re\w+\.{name}\b.*; give the file as"):
        find_missing(find(str(home), None, KINDS), KINDS, means(tmp_path))


@pytest.mark.parametrize(
    ("name", "value"),
    [("flags", ["HELP"]), ("flags", 1), ("homes", {"HELP": "/"}), ("homes", 1),
     ("homes", {"DPDK_HOME": "]==]"})],
)  # fmt: skip
def test_flags_and_homes_are_those_that_there_are(name: str, value: object) -> None:
    original = RecordedBuild(
        "", "record.json", made("client", fixes=[], cxx11_abi=None, **{name: value})
    )
    with pytest.raises(OptionsError, match=rf"has no usable request\..*{name}.*; give the file as"):
        original.options()


@pytest.mark.parametrize(
    "name", ["/etc/graft.so", "../graft.so", "lib/../../graft.so", "", "graft\0.so", "\udfff"]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str, home: Path) -> None:
    original = home / origin.NAME
    report = json.loads(original.read_text())
    report["subject"][0]["name"] = name
    original.write_text(json.dumps(report))
    with pytest.raises(OptionsError, match="has no usable subject; give the file"):
        find(str(home), None, KINDS)


def complete() -> dict[str, Provenance]:
    """A provenance of each kind, with all that a rebuild reads."""
    torch = {"python": sys.executable, "version": "1", "commit": "c", "root": "/r",
             "python_version": "3.11"}  # fmt: skip
    resolved: dict[str, object] = {"toolchain": TOOLCHAIN, "torch": torch}
    pin = {"name": PIN.name, "commit": PIN.commit}
    materials = (
        statement.describe_commit("pytorch", "", "1" * 40),
        statement.describe_commit("p4app-switchML", "", "2" * 40),
    )
    given: dict[str, dict[str, object]] = {
        "simulator": {"debug": True},
        "client": {"fixes": ["stop"], "cxx11_abi": None},
        "plugin": {"bundle": False},
        "graft": {"pin": pin},
    }
    found = {
        kind: replace(made(kind, **request), resolved=resolved, materials=materials)
        for kind, request in given.items()
    }
    client = {**resolved, "client": found["simulator"].statement()}
    found["plugin"] = replace(found["plugin"], resolved=client)
    wheel = make_inputs(**WHEEL, left_out=("a",), accepted=("b",))
    return {**found, "wheel": describe(wheel)}


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
def test_whatever_a_provenance_says_is_refused_or_can_be_built_from(
    kind: str, tmp_path: Path
) -> None:
    whole, here, source = complete()[kind], means(tmp_path), tmp_path / "record.json"
    target = tmp_path / (origin.ARCHIVE if kind in LIBRARIES else whole.subjects[0].name)
    target.touch()
    refused: list[str] = []
    taken = 0
    for output in (whole.statement(), *damaged(json.loads(whole.content()))):
        source.write_text(json.dumps(output))
        try:
            original = find(str(target), str(source), KINDS)
            read = KINDS[original.provenance.kind](original, here)
            client = original.client()
            if client is not None:
                KINDS[client.provenance.kind](client, here)
            needs = [*rebuild.requirements.list_common(original), *read.requires]
        except OptionsError as error:
            refused.append(str(error))
            continue
        taken += 1
        for text in (
            *original.list_files().values(),
            *(text for need in needs for pair in need.recorded.items() for text in pair),
            *(here.make_environ(original).values()),
        ):
            assert b"\0" not in os.fsencode(text)
    assert taken > 50
    assert all(line.isprintable() for line in refused)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("arguments", [
    ("nowhere",), ("home", "--provenance", "bad.json"), ("home", "--python", "nowhere"),
    ("home", "--work", "bad.json"), ("home", "-o", "bad.json"),
])  # fmt: skip
def test_bad_input_is_reported_in_two_lines_and_nothing_is_written(
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


def test_another_compiler_is_reported_and_none_is_refused(home: Path, tmp_path: Path) -> None:
    original = find(str(home), None, KINDS)
    (compiler,) = find_missing(original, KINDS, means(tmp_path))
    here = subprocess.check_output(["c++", "--version"], text=True).splitlines()[0]
    assert compiler.problems == (f"c++: was c++ 1.2.3, here {here}",)
    assert not compiler.required
    (lacking,) = find_missing(original, KINDS, means(tmp_path, CXX="nothing"))
    assert lacking.problems == ("nothing: no such compiler; install one or set CXX",)
    assert lacking.required


def test_a_changed_file_and_another_tool_are_reported(home: Path, tmp_path: Path) -> None:
    source = str(home / origin.NAME)
    described = statement.read(source)
    (home / "lib" / origin.ARCHIVE).write_bytes(b"other")
    older = replace(
        described,
        builder={"switchml-patch": "0.0.1", "zlib": described.builder["zlib"]},
        materials=(statement.describe_file(simulator.NAME, "0" * 64),),
    )
    original = RecordedBuild(str(home / "lib" / origin.ARCHIVE), source, older)
    missing = find_missing(original, KINDS, means(tmp_path))
    report = {one.name: " ".join(one.problems) for one in missing}
    assert report["files"].startswith(f"lib/{origin.ARCHIVE}: was {described.subjects[0].sha256}, ")
    assert report["built with"].startswith("switchml-patch: was 0.0.1, here ")
    assert report["source"] == f"simulator: was {'0' * 64}, here {simulator.digest_source()}"
    assert not any(one.required for one in missing)


def test_needs_of_a_wheel_that_are_not_here(tmp_path: Path) -> None:
    wheel = tmp_path / "torch.whl"
    wheel.touch()
    foreign = make_inputs(**WHEEL, pin=PIN._replace(commit="9" * 40))
    original = RecordedBuild(str(wheel), "", describe(foreign))
    missing = find_missing(original, KINDS, means(tmp_path))
    assert {one.name: one.problems[-1] for one in missing if one.required} == {
        "pin": f"no pin of commit {'9' * 40}; give its file with --pytorch FILE",
        "lock": f"{tmp_path}/conda-lock.yml: is not the one; give the lock with sha256 {'4' * 64} "
        "with --lock FILE",
        "client library": "not there, and no provenance names its origin; put it into /opt/s again",
    }


def test_the_pin_of_a_graft_of_another_commit(tmp_path: Path) -> None:
    own = "8" * 40
    known = PIN._replace(grafts=(own,))
    found = replace(means(tmp_path), pins=(known,)).find_pin(own)
    assert found == known._replace(commit=own)


def environ_of(described: Provenance, work: Path, **environ: str) -> dict[str, str]:
    return means(work, **environ).make_environ(RecordedBuild("", "record.json", described))


def test_the_environment_has_the_recorded_variables(tmp_path: Path) -> None:
    own = {"CXXFLAGS": "-O9", "CMAKE_PREFIX_PATH": "/x", "DPDK": "1", "SWITCHML_HOME": "/y"}
    described = made("plugin", variables={"CXXFLAGS": "-g", "CXX": "clang++"})
    found = environ_of(described, tmp_path, **own, CMAKE_CXX_COMPILER_LAUNCHER="ccache")
    assert found == {
        "PATH": os.environ["PATH"], "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
        "CXXFLAGS": "-g", "CXX": "clang++",
    }  # fmt: skip
    assert environ_of(described, tmp_path, CXX="g++")["CXX"] == "g++"
    resolved = {"toolchain": {**TOOLCHAIN, "compiler": shutil.which("g++")}}
    plain = replace(made("plugin"), resolved=resolved)
    assert environ_of(plain, tmp_path)["CXX"] == shutil.which("g++")


def test_the_compiler_of_a_wheel_without_a_lock(tmp_path: Path) -> None:
    """The user's, else the recorded one; that of a lock is nobody's choice."""
    variables = {"CXX": "g++ -m64", "USE_CUDA": "0"}
    wheel = {**WHEEL, "variables": variables}
    locked, free = (describe(make_inputs(**wheel, lock=one)) for one in ("4", None))
    path = {"PATH": os.environ["PATH"]}
    assert environ_of(locked, tmp_path, CXX="clang++") == path
    assert environ_of(free, tmp_path) == {**path, "CXX": "g++ -m64"}
    assert environ_of(free, tmp_path, CXX="clang++") == {**path, "CXX": "clang++"}


def test_without_namespaces_a_wheel_is_built_at_its_path_again() -> None:
    original = RecordedBuild("", "record.json", describe(make_inputs(**WHEEL)))
    work = os.path.dirname(original.text("resolved.buildPath"))
    here = means(Path(work))
    here.__dict__["sandbox"] = Sandbox(work, work, "refused")
    row = KINDS["wheel"](original, here).requires[-1]
    assert row.find() == row.recorded


def test_a_wheel_is_built_as_its_record_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[Any] = []

    def build(request: object, _: object) -> Any:
        requests.append(request)
        return SimpleNamespace(wheel="the wheel")

    monkeypatch.setattr("patchgen.core.wheel.build", build)
    (tmp_path / "conda-lock.yml").touch()
    variables = {"CMAKE_PREFIX_PATH": "/build/env", "USE_CUDA": "0", "VERBOSE": "1", "CXX": "g++"}
    wheel = {
        **WHEEL, "variables": variables, "accepted": ("no-blas",), "left_out": ("third_party/x",),
    }  # fmt: skip
    here = means(tmp_path)
    for lock in ("4" * 64, None):
        described = describe(make_inputs(**wheel, lock=lock))
        read = KINDS["wheel"](RecordedBuild("", "record.json", described), here)
        assert read.build("out", "") == "the wheel"
    locked, free = requests
    assert locked.settings == {"USE_CUDA": "0", "CXX": "g++"}
    assert (locked.python, locked.lock) == (None, here.lock)
    assert (free.settings, free.python) == ({"USE_CUDA": "0"}, "/usr/bin/python3")
    for request in requests:
        assert (request.pin, request.output, request.work) == (PIN, "out", str(tmp_path))
        assert (request.accepted, request.without) == (("no-blas",), ("third_party/x",))
        assert request.options.flags == ("DPDK",)


def test_a_wheel_with_a_changed_byte_is_compared_as_a_file(tmp_path: Path) -> None:
    (left, right) = (Fake("a", "1").write(tmp_path / name) for name in ("left", "right"))
    original = RecordedBuild(str(left), "", replace(made("wheel"), subjects=(measure(str(left)),)))
    assert rebuild._compare(original, str(right)) == []
    content = bytearray(left.read_bytes())
    place = len(content) // 3
    content[place] ^= 1
    left.write_bytes(content)
    (one,) = rebuild._compare(original, str(right))
    assert (one.path, one.kind, one.offset) == (left.name, Aspect.CONTENTS, place)


def test_an_attestation_has_both_digests(home: Path) -> None:
    original = find(str(home), None, KINDS)
    attested: Any = rebuild._attest(original, original.provenance, original.list_files())
    subject = [
        statement.describe_file(one.name, one.sha256) for one in original.provenance.subjects
    ]
    assert attested["subject"] == attested["predicate"]["rebuilt"] == subject
    assert attested["_type"] == "https://in-toto.io/Statement/v1"
    assert attested["predicateType"] == "urn:switchml-patch:reproduced:v1"
    assert attested["predicate"]["result"] == "reproduced"
    assert (
        attested["predicate"]["provenance"]["digest"]["sha256"] == measure(original.source).sha256
    )
    assert json.loads(statement.dump(attested)) == attested
