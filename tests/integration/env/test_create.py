from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.conda import PLACEHOLDER, PLATFORM, PROGRAM, Channel, Package, Site
from support.waiting import ENOUGH, has_ended, read_rest, until
from support.web import serve_files

from patchgen.core.wheel.conda import lockfile, marker, packages
from patchgen.core.wheel.payload import enclosure

POST_LINK = """\
set -e
test "$PWD" = "$PREFIX/bin"
echo "$PKG_NAME $PKG_VERSION $PKG_BUILDNUM" >> "$PREFIX/ran"
"""
TOOL = Package(
    "tool",
    build_number=3,
    depends=("lib >=1",),
    files={
        "bin/tool": f"#!/bin/sh\necho {PLACEHOLDER}\n",
        "bin/.tool-post-link.sh": POST_LINK,
        "lib/link": ("../bin/tool",),
    },
)
LIB = Package("lib", "1.5", files={"lib/lib": "alpha"}, old_format=True)
PYTHON = Package("python", "3.7.1", files={"bin/python3.7": "#!/bin/sh\n"})
PURE = Package(
    "pure",
    depends=("python",),
    files={"site-packages/pure.py": "ONE = 1\n"},
    subdir="noarch",
    noarch="python",
)
LINKED = {"bin/tool", "bin/.tool-post-link.sh", "lib/link", "lib/lib"}


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return Channel.holding(tmp_path / "al pha", TOOL, LIB, PYTHON, PURE)


@pytest.fixture
def site(tmp_path: Path, channel: Channel) -> Site:
    site = Site.new(tmp_path)
    site.ask([channel.url], ["tool"])
    site.lock()
    return site


def state(site: Site) -> marker.Marker:
    found = marker.read(str(site.prefix))
    assert found is not None
    return found


def record(site: Site, name: str) -> dict[str, object]:
    (path,) = (site.prefix / "conda-meta").glob(f"{name}-*.json")
    data: dict[str, object] = json.loads(path.read_text())
    return data


def test_a_prefix_holds_the_packages_with_its_own_path_in_them(
    site: Site, channel: Channel
) -> None:
    output = site.create()
    assert "fetched 2 of 2" in output
    assert "2 packages" in output
    assert site.files() == LINKED
    prefix = str(site.prefix)
    assert subprocess.check_output([f"{prefix}/lib/link"], text=True) == f"{prefix}\n"
    assert record(site, "tool")["url"] == channel.path(TOOL).as_uri()
    assert record(site, "lib")["sha256"] == site.locked()["lib"].sha256
    assert state(site).whole
    site.compare()


MAKE = """\
import os, subprocess, sys
from patchgen.core.wheel.conda import lockfile, prefix
from patchgen.core.wheel.payload import enclosure
lock, there, cache = sys.argv[1:]
seen = os.path.join(enclosure.PATH, os.path.basename(there))
enclosure.show(os.path.dirname(there))
prefix.create_prefix(
    lockfile.read(lock), there, cache, os.environ, seen
)
subprocess.run([f"{seen}/lib/link"])
os._exit(0)
"""


def test_a_prefix_that_a_build_sees_elsewhere_has_that_path_in_it(
    site: Site, channel: Channel
) -> None:
    """So have its post-link scripts, which run where they see it there."""
    site.relock([channel.url], ["tool"], link_scripts=["tool"])
    given = [str(path) for path in (site.lock_file, site.prefix, site.root / "cache")]
    output = subprocess.check_output([sys.executable, "-c", MAKE, *given], text=True)
    seen = f"{enclosure.PATH}/{site.prefix.name}"
    assert output == f"{seen}\n"
    assert (site.prefix / "bin/tool").read_text() == f"#!/bin/sh\necho {seen}\n"
    assert (site.prefix / "ran").exists()
    assert state(site).named == seen
    site.compare()
    assert "was made for a build" in site.create(code=3)


def test_a_noarch_python_package_goes_to_where_its_python_looks(
    site: Site, channel: Channel
) -> None:
    site.relock([channel.url], ["pure"])
    site.create()
    assert site.files() == {"bin/python3.7", "lib/python3.7/site-packages/pure.py"}
    assert record(site, "pure")["noarch"] == "python"
    site.compare()


def test_what_is_in_the_store_needs_no_network(site: Site, channel: Channel) -> None:
    with serve_files(channel.root) as url:
        site.relock([url], ["tool"])
        output = site.create()
    other = Site(site.root / "other")
    other.root.mkdir()
    output = site.create(prefix=other.prefix)
    assert "had 2 of 2" in output
    assert other.files() == LINKED


def test_without_network_the_address_is_reported_and_nothing_is_linked(
    site: Site, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "_RETRIES", 0)
    with serve_files(channel.root) as url:
        site.relock([url], ["tool"])
    output = site.create(code=4)
    assert f"{url}/{PLATFORM}/{TOOL.file_name}: cannot be fetched" in output
    assert not site.files()
    assert marker.read(str(site.prefix)) is None


@pytest.mark.parametrize("http", [False, True])
@pytest.mark.parametrize("what", ["sha256", "md5", "package", "truncated"])
def test_a_wrong_hash_stops_before_anything_is_linked(
    site: Site, channel: Channel, what: str, *, http: bool
) -> None:
    with serve_files(channel.root) as url:
        if http:
            site.relock([url], ["tool"])
        lib = site.locked()["lib"]
        if what in {"sha256", "md5"}:
            right = getattr(lib, what)
            text = site.lock_file.read_text()
            assert right in text
            site.lock_file.write_text(text.replace(right, "f" * len(right)))
            shown = what
        else:
            archive = channel.path(LIB)
            evil = Package("lib", "1.5", files={"lib/lib": "evil"}, old_format=True).archive()
            archive.write_bytes(evil if what == "package" else archive.read_bytes()[:-1])
            shown = "sha256"
        output = site.create(code=3)
    assert f"{lib.url}: its {shown} is" in output
    assert "as the lock says; not installed" in output
    assert not site.files()
    assert marker.read(str(site.prefix)) is None
    assert lib.file_name not in {path.name for path in site.cache.rglob("*")}


def test_a_lock_that_calls_a_package_by_another_name_is_refused(site: Site) -> None:
    text = site.lock_file.read_text()
    assert "version: '1.5'" in text
    site.lock_file.write_text(text.replace("version: '1.5'", "version: '1.6'"))
    output = site.create(code=3)
    assert "holds lib 1.5 h0_0, and not lib 1.6 h0_0" in output
    assert not site.files()


def test_another_package_of_the_same_name_is_not_taken_from_the_cache(
    site: Site, channel: Channel
) -> None:
    site.create()
    channel.add(Package("lib", "1.5", files={"lib/lib": "rebuilt"}, old_format=True))
    site.lock()
    other = site.root / "other"
    site.create(prefix=other)
    assert (other / "lib/lib").read_text() == "rebuilt"


def test_what_was_written_to_in_one_prefix_is_not_in_the_next(site: Site) -> None:
    site.create()
    with (site.prefix / "lib/lib").open("a") as file:
        file.write("scribble")
    other = site.root / "other"
    site.create(prefix=other)
    assert (other / "lib/lib").read_text() == "alpha"


def test_a_second_run_does_nothing(site: Site) -> None:
    site.create()
    before = {path: path.lstat().st_mtime_ns for path in site.prefix.rglob("*")}
    output = site.create()
    assert "fetched" not in output
    assert {path: path.lstat().st_mtime_ns for path in site.prefix.rglob("*")} == before
    assert not Path(os.environ["HOME"], ".cache", "rattler").exists()


@pytest.mark.parametrize("conda", [False, True])
def test_a_directory_that_is_not_ours_is_left_alone(site: Site, *, conda: bool) -> None:
    path = site.prefix / ("conda-meta/history" if conda else "thesis.tex")
    path.parent.mkdir(parents=True)
    path.write_text("work")
    assert "was not made by this command" in site.create(code=3)
    assert [p for p in site.prefix.rglob("*") if p.is_file()] == [path]
    assert path.read_text() == "work"


def test_a_prefix_of_another_lock_is_left_alone(site: Site, channel: Channel) -> None:
    site.create()
    site.relock([channel.url], ["python"])
    assert "was made from another lock" in site.create(code=3)
    assert site.files() == LINKED


def test_a_marker_that_cannot_be_understood_is_not_believed(site: Site) -> None:
    site.create()
    (site.prefix / marker.NAME).write_text('{"whole": true}')
    assert "cannot be understood" in site.create(code=3)


# Post-link scripts


def test_a_link_script_runs_only_where_the_environment_says_so(
    site: Site, channel: Channel
) -> None:
    assert "not run: the post-link script of tool" in site.create()
    assert "ran" not in site.files()
    site.relock([channel.url], ["tool"], link_scripts=["tool"])
    assert "was made from another lock" in site.create(code=3)
    shutil.rmtree(site.prefix)
    site.create()
    site.create()
    assert (site.prefix / "ran").read_text() == "tool 1.0 3\n"
    site.compare()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("exit 7", "return code 7"),
        ("echo sorry >&2; exit 1", "sorry"),
        ('echo why > "$PREFIX/.messages.txt"; false', "why"),
    ],
)
def test_a_link_script_that_fails_is_reported_and_tried_again(
    site: Site, channel: Channel, body: str, message: str
) -> None:
    repaired = site.root / "repaired"
    script = f'test -e "{repaired}" || {{ {body}; }}\n'
    channel.add(Package("tool", "2.0", files={"bin/.tool-post-link.sh": script}))
    site.relock([channel.url], ["tool"], link_scripts=["tool"])
    output = site.create(code=4)
    assert "the post-link script of tool failed" in output
    assert message in output
    assert not state(site).whole
    repaired.touch()
    site.create()
    assert state(site).whole
    site.compare()


def test_link_scripts_run_in_the_order_of_dependencies(site: Site, channel: Channel) -> None:
    names = ["a", "b", "c"]
    for name, needs in (("a", ("b",)), ("b", ("c",)), ("c", ())):
        script = {f"bin/.{name}-post-link.sh": POST_LINK}
        channel.add(Package(name, depends=needs, files=script))
    site.relock([channel.url], ["a"], link_scripts=names)
    site.create()
    ran = (site.prefix / "ran").read_text().splitlines()
    assert [line.split()[0] for line in ran] == ["c", "b", "a"]


# What cudatoolkit-dev's does: it goes on where a copy failed, and ends with 0. A directory that is
# there is not copied to.
COPY = """\
if test -e "$PREFIX/pkgs" || ! cp -r {source} "$PREFIX/pkgs"; then echo "the copy failed" >&2; fi
mkdir -p "$PREFIX/lib"
for file in "$PREFIX"/pkgs/*; do ln -sf "$file" "$PREFIX/lib/${{file##*/}}"; done
mv "$PREFIX/bin/given" "$PREFIX/bin/taken"
"""
FILES = ["lib/one", "lib/two"]


@pytest.fixture
def source(site: Site, channel: Channel) -> Path:
    """Directory that the script of `toolkit` copies; the prefix requires its two files."""
    source = site.root.parent / "source"
    script = COPY.format(source=source)
    files = {"bin/.toolkit-post-link.sh": script, "bin/given": "a"}
    channel.add(Package("toolkit", depends=("lib",), files=files))
    site.relock([channel.url], ["toolkit"], link_scripts=["toolkit"], required_files=FILES)
    return source


def fill(source: Path) -> None:
    source.mkdir(exist_ok=True)
    for name in FILES:
        path = source / Path(name).name
        path.unlink(missing_ok=True)
        path.write_text("content")


def test_a_script_that_ends_with_0_without_its_files_leaves_no_whole_prefix(
    site: Site, source: Path
) -> None:
    for _ in range(2):  # what the first run left is in no later run's way
        output = site.create(code=4)
        assert f"{site.prefix}: lib/one is missing, lib/two is missing; " in output
        assert "the copy failed" in output
        assert not state(site).whole
    fill(source)
    (source / "one").unlink()
    assert "lib/one is missing; " in site.create(code=4)
    fill(source)
    site.create()
    assert state(site).whole
    assert {*FILES, "pkgs/one", "pkgs/two", "bin/taken"} <= site.files()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.write_text(""), "empty"),
        (lambda path: path.symlink_to("nowhere"), "a dangling link"),
        (lambda path: path.symlink_to(path.name), "a dangling link"),
        (Path.mkdir, "not a file"),
    ],
    ids=["empty", "dangling", "circle", "directory"],
)
def test_a_required_file_is_a_file_with_content(
    site: Site, source: Path, make: Callable[[Path], object], problem: str
) -> None:
    fill(source)
    (source / "two").unlink()
    make(source / "two")
    assert f"{site.prefix}: lib/two is {problem}; " in site.create(code=4)
    assert not state(site).whole


def test_a_failed_script_leaves_nothing_to_the_next_run(site: Site, source: Path) -> None:
    """Neither what it wrote, nor what it did to files of packages."""
    site.create(code=4)
    (site.prefix / "pkgs").mkdir()
    (site.prefix / "pkgs/half").write_text("half a file")
    (site.prefix / "conda-meta/half.json").write_text("{")
    fill(source)
    site.create()
    assert "pkgs/half" not in site.files()
    assert not (site.prefix / "conda-meta/half.json").exists()


def test_a_required_file_of_a_package_needs_no_script(site: Site, channel: Channel) -> None:
    site.relock([channel.url], ["tool"], required_files=["bin/tool", "lib/link"])
    site.create()
    assert state(site).whole


def test_a_whole_prefix_that_has_lost_a_required_file_is_reported_and_kept(
    site: Site, source: Path
) -> None:
    fill(source)
    site.create()
    (site.prefix / "pkgs/one").unlink()
    assert "lib/one is a dangling link; remove this directory" in site.create(code=3)
    assert "pkgs/two" in site.files()


# Kills, and several runs

KILL = """
import os, signal, sys
at, count = int(sys.argv.pop(1)), 0
real = os.replace
def step(*arguments, **keywords):
    global count
    result = real(*arguments, **keywords)
    count += 1
    if count == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
os.replace = step
"""


# As soon as the first file of a package is in the prefix.
KILL_WHILE_LINKING = """
import glob, os, signal, sys, threading
def watch(prefix=sys.argv[4]):
    while not glob.glob(os.path.join(glob.escape(prefix), "big*", "*")):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
"""


def test_a_kill_at_any_step_is_seen_and_fixed(site: Site, channel: Channel) -> None:
    site.relock([channel.url], ["tool"], link_scripts=["tool"])
    seen = set()
    for at in range(1, 30):
        prefix, cache = site.root / f"p{at}", site.root / f"c{at}"
        arguments = site.create_arguments(prefix, cache)
        command = [sys.executable, "-c", KILL + PROGRAM, str(at), "env", *map(str, arguments)]
        done = subprocess.run(command, check=False, capture_output=True)
        found = marker.read(str(prefix))
        if done.returncode == 0:
            assert found is not None
            assert found.whole
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        seen.add("nothing" if found is None else "whole" if found.whole else "half")
        site.run(*arguments)
        site.compare(prefix)
        assert set((prefix / "ran").read_text().splitlines()) == {"tool 1.0 3"}
    assert seen == {"nothing", "half", "whole"}


def test_a_kill_while_files_are_linked_is_fixed(site: Site, channel: Channel) -> None:
    big = [Package(f"big{n}", files={f"big{n}/{i}": f"{n} {i}" for i in range(250)})
           for n in range(6)]  # fmt: skip
    channel.add(*big)
    site.relock([channel.url], [package.name for package in big])
    for _ in range(20):  # on a busy machine it may be done with linking before it is killed
        with site.start(*site.create_arguments(), program=KILL_WHILE_LINKING + PROGRAM) as process:
            process.communicate(timeout=ENOUGH)
        if process.returncode == -signal.SIGKILL and not state(site).whole:
            break
        shutil.rmtree(site.prefix)
    else:
        pytest.fail("was never killed while it linked")
    assert not state(site).whole
    (site.prefix / next(path.name for path in site.prefix.glob("big*")) / "0").write_text("torn")
    site.create()
    site.compare()


def test_ctrl_c_ends_a_link_script_and_the_next_run_finishes(site: Site, channel: Channel) -> None:
    go = site.root / "go"
    script = f"""\
if ! test -e "{go}"; then
  sleep 600 &
  echo "$!" >"$PREFIX/part"; mv "$PREFIX/part" "$PREFIX/here"
  wait
fi
"""
    channel.add(Package("slow", files={"bin/.slow-post-link.sh": script}))
    site.relock([channel.url], ["slow"], link_scripts=["slow"])
    with site.start(*site.create_arguments()) as process:
        until((site.prefix / "here").exists, process)
        process.send_signal(signal.SIGINT)
        assert "interrupted" in read_rest(process)
        assert process.returncode == 130
    assert has_ended((site.prefix / "here").read_text().strip())
    assert not state(site).whole
    go.touch()
    site.create()
    site.compare()


def test_a_half_made_prefix_is_not_finished_from_another_lock(site: Site, channel: Channel) -> None:
    lock = lockfile.read(str(site.lock_file))
    marker.write(str(site.prefix), marker.Marker(lock.identity))
    site.relock([channel.url], ["python"])
    assert "was begun from another lock" in site.create(code=3)


def test_the_second_of_two_runs_says_so_and_stops(site: Site, channel: Channel) -> None:
    script = 'touch "$PREFIX/here"; while ! test -e "$PREFIX/go"; do sleep 0.02; done\n'
    channel.add(Package("slow", files={"bin/.slow-post-link.sh": script}))
    site.relock([channel.url], ["slow"], link_scripts=["slow"])
    with site.start(*site.create_arguments()) as first:
        until((site.prefix / "here").exists, first)
        assert "another run" in site.create(code=3)
        (site.prefix / "go").touch()
        message = read_rest(first)
    assert first.returncode == 0, message
    site.compare()


def test_a_changed_environment_file_makes_the_lock_stale(site: Site, channel: Channel) -> None:
    site.file.write_text(site.file.read_text() + "\n# a comment\n")
    assert "warning: " not in site.create()
    site.ask([channel.url], ["tool", "lib"])
    assert f"warning: {site.file} has changed since" in site.create()
    site.file.unlink()
    assert "warning: " not in site.create()


def test_two_runs_share_a_cache_at_the_same_time(site: Site) -> None:
    prefixes = [site.root / name for name in "abc"]
    runs = [site.start(*site.create_arguments(prefix)) for prefix in prefixes]
    for run in runs:
        with run:
            output = read_rest(run)
        assert run.returncode == 0, output
    for prefix in prefixes:
        site.compare(prefix)


def test_a_cache_that_cannot_be_written_is_named_once(site: Site) -> None:
    output = site.create(cache=Path("/proc/cache"), code=5)
    assert output.count("/proc/cache") == 1
