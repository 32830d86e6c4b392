"""A project of PyTorch's shape, from its repository to a wheel that sums, by the command build."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Callable, NamedTuple

import pytest
from support import bill, command, torch_project
from support.build import HERE, Site, environment
from support.disks import small
from support.programs import script
from support.waiting import ENOUGH, has_ended, read_rest, read_until, until
from support.web import Quiet, listening

from patchgen.core.wheel.payload import enclosure
from patchgen.system.wheel import SBOM

STAGES = ("lock", "source", "env", "patch", "compile", "wheel", "verify")
TEST_PROGRAM = "torch/bin/third_party_test"


class FirstBuild(NamedTuple):
    """Results of a build without a stop, which stay whatever is built there later."""

    site: Site
    digest: str
    log: str
    state: bytes


@pytest.fixture(scope="module")
def first(site: Site) -> FirstBuild:
    site.run()
    (wheel,) = site.wheels
    return FirstBuild(site, digest(wheel), site.log, (site.work / "state.json").read_bytes())


@pytest.fixture
def built(first: FirstBuild) -> Site:
    """The place of the first build, built so again where a test has built something else."""
    if (first.site.work / "state.json").read_bytes() != first.state:
        shutil.rmtree(first.site.output)
        first.site.run()
    return first.site


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compiled(log: str) -> list[str]:
    """The objects that were compiled, by the name of their source."""
    return re.findall(r"Building CXX object \S*/(\w+\.cpp)\.o", log)


def names(wheel: Path) -> list[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def done(output: str) -> list[str]:
    """The stages that the plan calls done."""
    return re.findall(r"^  done +(\w+)", output, re.MULTILINE)


def test_a_wheel_and_where_it_came_from(first: FirstBuild, built: Site) -> None:
    (wheel,) = built.wheels
    version = built.project.pin.version
    name = rf"torch-{re.escape(version)}\+switchml-(cp3\d+)-\1-linux_x86_64\.whl"
    assert re.fullmatch(name, wheel.name)
    assert {"ProcessGroupGloo.cpp", "SwitchMLLoader.cpp"} <= {*compiled(first.log)}
    assert f"PYTHON_EXECUTABLE : {enclosure.PATH}/env/bin/python\n" in first.log
    assert "torch/distributed/switchml.py" in names(wheel)
    assert not Path(enclosure.PATH).exists()
    with zipfile.ZipFile(wheel) as archive:
        for library in ("libtorch_cpu.so", "libswitchml_delegate.so"):
            assert str(built.work).encode() not in archive.read(f"torch/lib/{library}")
    statement = json.loads(Path(f"{wheel}.provenance.json").read_text())
    assert statement["subject"][0]["digest"]["sha256"] == digest(wheel)
    definition = statement["predicate"]["buildDefinition"]
    materials = {one["name"]: one["digest"] for one in definition["resolvedDependencies"]}
    submodule = {"gitCommit": built.project.submodule_commit}
    assert materials[torch_project.SUBMODULE] == submodule
    assert materials["pytorch"] == {"gitCommit": built.project.commit}
    patch = built.output / "switchml_pytorch.patch"
    assert materials[patch.name] == {"sha256": digest(patch)}
    assert f"torch=={version}+switchml\n" in (built.output / "constraints.txt").read_text()
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(f".dist-info/{SBOM}"))
        found = bill.checked(archive.read(name).decode())
    assert found["specVersion"] == "1.6"
    components = {one["bom-ref"]: one for one in found["components"]}
    assert components[torch_project.SUBMODULE]["version"] == built.project.submodule_commit
    assert components["libgloo.so.0"]["purl"].startswith("pkg:deb/debian/libgloo0@")
    assert components["pytorch"]["version"] == version


def test_a_second_run_does_nothing(built: Site) -> None:
    (wheel,) = built.wheels
    before = wheel.stat().st_mtime_ns, (built.work / "state.json").read_bytes()
    output = built.run().stderr
    assert done(output) == [*STAGES]
    assert "/7]" not in output
    assert (wheel.stat().st_mtime_ns, (built.work / "state.json").read_bytes()) == before


def rebuild(built: Site, *words: str | Path, code: int = 0, **env: str) -> str:
    """What `rebuild` says of the wheel of a build."""
    (wheel,) = built.wheels
    done = command.run(
        "rebuild", wheel, "--lock", built.lock, "--cache", built.root.parent / "cache",
        "--pytorch", built.project.pin_file, "--mirror", built.project.mirror, *words,
        env=environment(**env), limit=2 * ENOUGH,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_a_rebuild_in_another_directory_has_the_same_bytes(
    first: FirstBuild, built: Site, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    printed = rebuild(built, "--work", tmp_path / "another-work", "-o", output)
    assert printed.endswith("identical bytes\n")
    (wheel,) = output.glob("*.whl")
    assert digest(wheel) == first.digest
    statement = json.loads(Path(f"{wheel}.reproduced.json").read_text())
    assert [one["digest"]["sha256"] for one in statement["subject"]] == [first.digest]
    assert statement["predicate"]["rebuilt"] == statement["subject"]


def test_a_rebuild_names_the_library_that_is_another(built: Site, tmp_path: Path) -> None:
    archive = built.client / "lib" / "libswitchml-client.a"
    content = archive.read_bytes()
    archive.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    try:
        output = rebuild(built, "--work", tmp_path / "work", "-o", tmp_path / "out", code=6)
    finally:
        archive.write_bytes(content)
    assert "[ ] client library\n      not there, and no provenance names its origin; put" in output
    assert not (tmp_path / "out").exists()


def test_no_room_for_the_wheel_leaves_no_half_of_it(built: Site, tmp_path: Path) -> None:
    output = tmp_path / "small"
    with small(output, "64k"):
        printed = built.run("--builddir", output, code=5).stderr
        assert "No space left on device" in printed
        assert not list(output.iterdir())


def test_a_dry_run_changes_nothing(built: Site, tmp_path: Path) -> None:
    assert done(built.run("--dry-run", "--debug").stdout) == ["lock", "source", "env"]
    new = built.elsewhere(tmp_path / "new")
    plan = json.loads(new.run("--dry-run", "--json").stdout)
    assert [stage["done"] for stage in plan["stages"]] == [True] + [False] * 6
    assert plan["version"] == f"{built.project.pin.version}+switchml"
    output = new.run("--dry-run", "--set", "CMAKE_CXX_FLAGS=-O0 -g; exit", code=6).stdout
    (line,) = (line for line in output.splitlines() if line.startswith("  variables "))
    assert "CMAKE_CXX_FLAGS=-O0 -g; exit" in shlex.split(line)
    assert not new.root.exists()


def test_a_dry_run_tells_what_the_build_would_refuse(site: Site, tmp_path: Path) -> None:
    """The words are those of the build itself, behind the plan, and so is the exit code."""
    place = site.elsewhere(tmp_path / "place")
    refused = ("--switchml-home", tmp_path / "none")
    planned = place.run("--dry-run", *refused, code=6)
    assert re.findall(r"^  (?:done|to do) +(\w+)", planned.stdout, re.MULTILINE) == [*STAGES]
    assert "[ ] SWITCHML_HOME: " in planned.stderr
    data = json.loads(place.run("--dry-run", "--json", *refused, code=6).stdout)
    assert [row["name"] for row in data["missing"]] == ["SWITCHML_HOME"]
    assert not place.root.exists()
    built = place.run(*refused, code=6).stderr
    assert built.endswith(planned.stderr)


def test_without_a_lock_it_is_made_first(site: Site, tmp_path: Path) -> None:
    place = Site(tmp_path / "place", site.project, tmp_path / "conda-lock.yml", site.client)
    shutil.copy(site.lock.parent / "environment" / "environment.yml", tmp_path)
    output = place.run("--dry-run", cwd=tmp_path).stdout
    assert re.findall(r"^  to do +(\w+)", output, re.MULTILINE) == [*STAGES]
    assert not place.lock.exists()
    with place.start(cwd=tmp_path) as running:
        output = read_until(running, "[2/7] source")
        running.kill()
        read_rest(running)
    assert "[1/7] lock" in output
    assert done(place.run("--dry-run").stdout)[0] == "lock"
    assert [package for package in place.lock.read_text().splitlines() if "sha256" in package] == [
        package for package in site.lock.read_text().splitlines() if "sha256" in package
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("--switchml-home", "/nowhere"), 6, "[ ] SWITCHML_HOME: no /nowhere/include"),
        ((), 6, "[ ] git: not on PATH"),
        (("--mlx5",), 2, "MLX5=1"),
        (("--accept", "everything"), 2, "'everything' is not one of"),
        (("--builddir", "/proc/none"), 5, "give another directory with --builddir"),
    ],
)
def test_what_is_missing_is_refused_before_a_lock_is_made(
    site: Site, tmp_path: Path, arguments: tuple[str, ...], code: int, named: str
) -> None:
    place = Site(tmp_path / "place", site.project, tmp_path / "conda-lock.yml", site.client)
    shutil.copy(site.lock.parent / "environment" / "environment.yml", tmp_path)
    environ = {} if arguments else {"PATH": "/nowhere"}
    output = place.run(*arguments, cwd=tmp_path, code=code, **environ).stderr
    assert named in output
    assert "] lock" not in output
    assert not place.lock.exists()
    assert not (tmp_path / "cache").exists()


def test_another_variable_compiles_what_depends_on_it(built: Site) -> None:
    (wheel,) = built.wheels
    assert TEST_PROGRAM in names(wheel)
    output = built.compile("--set", "BUILD_TEST=0", until="[7/7] verify")
    assert done(output) == ["lock", "source", "env", "patch"]
    assert compiled(built.log) == ["threads.cpp"]  # it includes a header that CMake configures
    (other,) = (built.work / "wheel").glob("*.whl")
    assert TEST_PROGRAM not in names(other)


@pytest.mark.rebuild
def test_the_first_variables_again_give_the_first_wheel(first: FirstBuild, built: Site) -> None:
    (wheel,) = built.wheels
    built.compile("--set", "USE_MKLDNN=0")
    assert {*compiled(built.log)} <= {"threads.cpp", "third_party_test.cpp"}
    built.run()
    assert compiled(built.log) == []
    assert digest(wheel) == first.digest


@pytest.mark.rebuild
def test_another_flag_is_another_version_which_can_be_installed(built: Site) -> None:
    switchml = f"{built.project.pin.version}+switchml"
    output = built.run("--debug").stderr
    assert done(output) == ["lock", "source", "env"]
    assert compiled(built.log) == ["unity.cpp"]
    assert [wheel.name.split("-")[1] for wheel in built.wheels] == [
        switchml,
        f"{switchml}.debug",
    ]
    install = json.loads(built.run("--debug", "--json").stdout)["commands"][0]
    subprocess.run(shlex.split(install), check=True)
    python = built.work / "env" / "bin" / "python"
    command = [str(python), "-c", "import torch; print(torch.__version__, torch.__file__)"]
    version, file = subprocess.check_output(command, cwd="/", text=True).split()
    assert version == f"{switchml}.debug"
    assert Path(file).is_relative_to(built.work / "env")


# Compiles, but for one file: there it starts another program, and waits for it.
HELD = """\
#!/bin/sh
case "$*" in *unity.cpp*) ;; *) exec "$@" ;; esac
sleep 600 &
echo "$!" >"$0.part"
mv "$0.part" "$0.pid"
wait
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.rebuild)]
)
def test_a_signal_ends_the_compiler_too(site: Site, tmp_path: Path, number: signal.Signals) -> None:
    place = site.elsewhere(tmp_path / "place")
    launcher = script(tmp_path / "launcher", HELD)
    pid = tmp_path / "launcher.pid"
    with place.start(*HERE, "--set", f"CMAKE_CXX_COMPILER_LAUNCHER={launcher}") as running:
        until(pid.exists, running)
        running.send_signal(number)
        output = read_rest(running)
    assert has_ended(pid.read_text().strip())
    until(lambda: not any(_works_in(pid, place.work) for pid in os.listdir("/proc")))
    if number == signal.SIGINT:
        assert running.returncode == 130
        assert "interrupted in stage compile; the same command goes on from there" in output
    else:
        assert running.returncode == -number


def _works_in(pid: str, directory: Path) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(directory)
    except OSError:  # it has ended, or is no process
        return False


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (torch_project.COMPILE_ERROR, "no_such_name"),
        (torch_project.LINK_ERROR, "undefined reference to"),
    ],
)
def test_the_first_error_of_a_failed_build_is_reported(
    site: Site, tmp_path: Path, changes: dict[str, str], named: str
) -> None:
    project = torch_project.make(tmp_path / "project", changes)
    place = Site(tmp_path / "place", project, site.lock, site.client)
    output = place.run(*HERE, code=4).stderr
    assert named in output
    found = re.search(r"\(line (\d+) of (\S+)\)", output)
    assert found is not None
    line = Path(found[2]).read_text().splitlines()[int(found[1]) - 1]
    assert line.strip() in output
    assert not place.wheels


def test_a_submodule_at_another_commit_is_named(site: Site, tmp_path: Path) -> None:
    place = site.elsewhere(tmp_path / "place")
    with place.start(*HERE) as running:
        read_until(running, "] patch")
        running.kill()
        read_rest(running)
    submodule = place.work / "source" / torch_project.SUBMODULE
    torch_project.git(submodule, "fetch", "-q", str(place.project.tiny), "main")
    torch_project.git(submodule, "checkout", "-q", place.project.later)
    output = place.run(*HERE, code=3).stderr
    assert f"{torch_project.SUBMODULE}: expected {place.project.submodule_commit}" in output
    assert torch_project.git(submodule, "rev-parse", "HEAD") == place.project.later


def test_it_goes_without_what_the_user_leaves_out(site: Site, tmp_path: Path) -> None:
    place = site.elsewhere(tmp_path / "place")
    output = place.run(*HERE, "--without", "third_party/none", code=2).stderr
    assert "--without third_party/none: no submodule" in output
    output = place.run(*HERE, "--without", f"{torch_project.SUBMODULE}/", code=4).stderr
    assert "] compile\n" in output, "the source is complete without it"
    source = place.work / "source"
    assert not [*(source / torch_project.SUBMODULE).iterdir()]
    planned = place.run(*HERE, "--dry-run").stdout
    assert "done         source" in planned


@pytest.mark.rebuild
def test_a_full_disk_is_reported_and_the_build_goes_on_with_room(
    site: Site, tmp_path: Path
) -> None:
    place = site.elsewhere(tmp_path / "place")
    with small(place.work, "8m") as resize:
        output = place.run(code=5).stderr
        assert "No space left on device" in output
        resize("2g")
        place.compile()


@pytest.mark.rebuild
def test_the_interpreter_that_is_there_will_do(site: Site, tmp_path: Path) -> None:
    place = site.elsewhere(tmp_path / "place")
    place.run(*HERE)
    (wheel,) = place.wheels
    statement = json.loads(Path(f"{wheel}.provenance.json").read_text())
    materials = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    names = {one["name"] for one in materials}
    assert "conda-lock.yml" not in names
    assert not (place.work / "env").exists()
    moved = site.elsewhere(tmp_path / "moved")
    shutil.copytree(place.work, moved.work, symlinks=True)
    for one in (place, moved):  # its programs have seen the same path
        assert done(one.run(*HERE, "--dry-run").stdout) == [*STAGES[1:]]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--set", "USE_CUDA"), "write NAME=VALUE"),
        (("--set", "USE_CUDA=0", "--set", "USE_CUDA=1"), "given twice"),
        (("--set", "MAX_JOBS=3"), "see --jobs"),
        (("--work", "/nowhere/a b"), "letters, digits"),
        (("--work", ""), "--work is empty"),
        (("--python", ""), "--python is empty"),
        (("--lock", ""), "--lock is empty"),
        (("--lock", "/nowhere/lock.yml"), "switchml-patch env lock"),
        (("--config", "/nowhere/switchml.cfg"), "does not exist"),
        (("--python", "no-such-python"), "no such interpreter"),
    ],
)
def test_what_cannot_be_is_refused(site: Site, arguments: tuple[str, ...], named: str) -> None:
    assert named in site.run(*arguments, code=2).stderr


@pytest.mark.parametrize("most", ["many", "0", "-1", "1.5"])
def test_a_number_of_compilers_that_is_none_is_refused(site: Site, most: str) -> None:
    output = site.run("--dry-run", code=2, MAX_JOBS=most).stderr
    assert f"MAX_JOBS={most}: not a positive integer" in output


def test_a_number_that_is_given_comes_first(site: Site) -> None:
    given = ("--jobs", "3", "--switchml-home", "/nowhere")  # refused without a compiler
    assert "  jobs         3," in site.run("--dry-run", *given, code=6, MAX_JOBS="many").stdout


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_a_work_directory_that_is_a_file_is_named(
    site: Site, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    file = tmp_path / "file"
    file.touch()
    output = site.run(*arguments, "--work", file, code=5).stderr
    assert f"{file}/" in output
    assert "Not a directory" in output
    assert arguments or "give another directory with --work" in output


def test_where_the_wheel_goes_is_tried_before_it_is_built(site: Site, tmp_path: Path) -> None:
    place = site.elsewhere(tmp_path / "place")
    output = place.run("--builddir", "/proc/none", code=5).stderr
    assert "/proc/none: No such file or directory; give another directory with --builddir" in output
    assert not (place.work / "source").exists()


@pytest.mark.parametrize(
    ("stages", "cached"),
    [(STAGES[4:], True), pytest.param(STAGES[1:], False, marks=pytest.mark.rebuild)],
    ids=["cached", "compiled"],
)
def test_killed_in_each_stage_it_goes_on_to_the_same_bytes(
    first: FirstBuild, monkeypatch: pytest.MonkeyPatch, stages: tuple[str, ...], *, cached: bool
) -> None:
    """The second case compiles all objects again.

    A kill of what the first case leaves out is also tested with each command alone.
    """
    place = first.site
    if not cached:
        monkeypatch.setenv("CCACHE_RECACHE", "1")
    shutil.rmtree(place.root)
    totals = set()
    for stage in stages:
        number = STAGES.index(stage) + 1
        with place.start() as running:
            # On a busy machine the run before may have come further than where it was to be killed.
            later = [f"[{n}/7] {name}" for n, name in enumerate(STAGES, 1) if n >= number]
            output = read_until(running, *later, "  sha256 ")
            if f"[5/7] {stage}" in output:
                output += read_until(running, " of ")
                running.send_signal(signal.SIGSTOP)
                second = place.run(code=3).stderr
                assert "another run is at work here" in second
            running.kill()
            output += read_rest(running)
        assert tuple(done(output)) == STAGES[: len(done(output))]
        totals |= {*re.findall(r"^  \d+ of (\d+)$", output, re.MULTILINE)}
    totals |= {*re.findall(r"^  \d+ of (\d+)$", place.run().stderr, re.MULTILINE)}
    assert len(totals) <= 1  # what was compiled before a kill counts as done
    assert "Configuring done" in place.attempts[0]
    (resumed,) = place.wheels
    assert digest(resumed) == first.digest
    assert not [*place.work.glob("**/*.switchml-tmp"), *place.output.glob("*.part")]


MOST_MISSED = 0.05
Count = Callable[[], "tuple[int, int]"]
"""Hits and misses so far."""


@contextlib.contextmanager
def serve_objects() -> Iterator[tuple[str, Count]]:
    """A server with GET, HEAD, PUT and DELETE; its address, and what counts its answers."""
    objects: dict[str, bytes] = {}
    counted = [0, 0]

    class Handler(Quiet, http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, code: int, content: bytes = b"") -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def do_GET(self) -> None:  # named by the base class
            content = objects.get(self.path)
            counted[content is None] += 1
            self.answer(404 if content is None else 200, content or b"")

        do_HEAD = do_GET  # noqa: N815  # likewise

        def do_PUT(self) -> None:  # likewise
            objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(201)

    with listening(Handler) as url:
        yield f"{url}/objects", lambda: (counted[0], counted[1])


@pytest.mark.rebuild
def test_a_server_of_objects_serves_a_second_work_directory(site: Site, tmp_path: Path) -> None:
    """Each with an empty cache of its own; the second in a deeper directory."""
    if shutil.which("ccache") is None or shutil.which("sccache"):
        pytest.skip("build does not choose ccache here")
    counts, caches = [(0, 0)], [tmp_path / "first cache", tmp_path / "second cache"]
    places = [site.elsewhere(tmp_path / "first"), site.elsewhere(tmp_path / "a" / "second")]
    with serve_objects() as (address, count):
        for place, cache in zip(places, caches):
            place.root.parent.mkdir(exist_ok=True)
            env = {"CCACHE_DIR": str(cache), "CCACHE_BASEDIR": "", "CCACHE_SLOPPINESS": ""}
            output = place.compile(cwd=None, **env, CCACHE_REMOTE_STORAGE=address)
            assert re.search(r"seen at .*, with your network for ccache's \w+_storage\n", output)
            state = json.loads((place.work / "state.json").read_text())
            assert state["stages"]["compile"]["made"]["network"] == "host"
            counts.append(count())
    first = len(re.findall(r"Building C(?:XX)? object", places[0].log))
    assert first >= 5
    assert counts[1][1] >= first, "the first has found the server, and nothing there"
    hits, misses = (after - before for before, after in zip(counts[1], counts[2]))
    assert hits >= first
    assert misses <= MOST_MISSED * hits
    ask = ["ccache", "--dir", str(caches[1]), "--print-stats"]
    output = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^cache_miss\t(\d+)$", output, re.MULTILINE) == ["0"]
