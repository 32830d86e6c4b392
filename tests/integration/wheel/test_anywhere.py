"""The same bytes from any directory and for any user; what is left of that without namespaces."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import torch_project, unprivileged
from support.build import HERE, Site, environment, make_parts
from support.simulator import installed_prefix
from support.waiting import ENOUGH, read_rest, read_until

from patchgen.core.wheel.conda import marker
from patchgen.core.wheel.payload import enclosure

ELSEWHERE = 'hostname elsewhere.example && umask 077 && exec "$@"'
NOBODY = str(unprivileged.NOBODY)
AS_NOBODY = ("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--")
REFUSED = """\
echo 0 >/proc/sys/user/max_mnt_namespaces && echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"
"""
WITHOUT_NAMESPACES = ("unshare", "--user", "--map-root-user", "sh", "-c", REFUSED, "sh")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A build of root's, in a directory that others can read."""
    with unprivileged.directory() as root:
        site = make_parts(root, installed_prefix(tmp_path_factory))
        site.run("--jobs", "1")
        yield site


@pytest.fixture(scope="module")
def tool(built: Site) -> Sequence[str]:
    """The tool, as another user can run it."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    python = unprivileged.interpreter(built.root.parents[1] / "python")
    return (str(python), "-m", "patchgen")


def build(place: Site, before: Sequence[str], *arguments: str, **env: str) -> str:
    """Builds by a command before ours, and returns what was said."""
    done = subprocess.run(
        [*before, *place.arguments(*arguments)],
        env=environment(CCACHE_DISABLE="1", **env), cwd="/", timeout=2 * ENOUGH,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def provenance(wheel: Path) -> Any:  # JSON
    predicate = json.loads(Path(f"{wheel}.provenance.json").read_text())["predicate"]
    return predicate["buildDefinition"]["internalParameters"]


def library(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read("torch/lib/libtorch_cpu.so")


@pytest.mark.rebuild
def test_another_user_elsewhere_makes_the_same_bytes_again(
    built: Site, tool: Sequence[str]
) -> None:
    """Other directory, user, home, umask, host name, time zone, locale and number of jobs."""
    root = built.root.parents[1] / "two"
    place = built.elsewhere(root / "deeper" / "place")
    (root / "home").mkdir(parents=True)
    (root / "deeper").mkdir()
    for path in (root, *root.rglob("*")):
        shutil.chown(path, unprivileged.NOBODY, unprivileged.NOBODY)
    user = ("unshare", "--uts", "sh", "-c", ELSEWHERE, "sh", *AS_NOBODY, *tool)
    done = subprocess.run(
        [
            *user, "rebuild", built.wheels[0], "--pytorch", built.project.pin_file,
            "--lock", built.lock, "--mirror", built.project.mirror,
            "--cache", root / "deeper" / "cache", "--work", place.work, "-o", place.output,
        ],
        env=environment(
            CCACHE_DISABLE="1", MAX_JOBS="3", HOME=str(root / "home"), TMPDIR=str(root / "home"),
            PATH="/usr/sbin:/usr/bin:/bin", TZ="Asia/Kolkata", LANG="de_DE.UTF-8",
            LC_MESSAGES="C", USER="nobody",
        ),
        cwd="/", timeout=2 * ENOUGH, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("identical bytes\n")
    (one,), (two,) = built.wheels, place.wheels
    assert two.stat().st_uid == unprivileged.NOBODY
    assert one.read_bytes() == two.read_bytes()
    written, again = (Path(f"{wheel}.provenance.json") for wheel in (one, two))
    assert written.read_bytes() == again.read_bytes()
    assert provenance(one)["buildPath"] == f"{enclosure.PATH}/source"
    assert provenance(one)["isolation"] == {
        "namespaces": "mount, network",
        "network": {"compile": "loopback", "wheel": "loopback", "verify": "loopback"},
    }


@pytest.mark.rebuild
def test_another_user_without_a_lock_gets_the_fixed_path_too(
    built: Site, tool: Sequence[str]
) -> None:
    """A process that has made a lock has threads, and could not leave its namespaces then."""
    root = built.root.parents[1] / "four"
    root.mkdir()
    shutil.copy(built.lock.parent / "environment" / "environment.yml", root)
    for path in (root, *root.rglob("*")):
        shutil.chown(path, unprivileged.NOBODY, unprivileged.NOBODY)
    place = replace(built.elsewhere(root / "place"), lock=root / "conda-lock.yml")
    with subprocess.Popen(
        [*AS_NOBODY, *tool, *place.arguments("--cache", root / "cache")], cwd=root, text=True,
        env=environment(HOME=str(root), TMPDIR=str(root), PATH="/usr/bin:/bin"),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        output = read_until(running, "[4/7] patch")
        running.kill()
        read_rest(running)
    assert "[1/7] lock" in output
    found = marker.read(str(place.work / "env"))
    assert found is not None
    assert (found.whole, found.named) == (True, f"{enclosure.PATH}/env")


@pytest.mark.rebuild
def test_the_verification_sees_the_wheel_as_its_users_do(built: Site, tmp_path: Path) -> None:
    """What is only at the fixed path, such as a library that a run path names, is not found."""
    refuse = f"import os\nif os.path.exists('{enclosure.PATH}/source'):\n    raise ImportError\n"
    original = (torch_project.DEBIAN_TORCH / "__init__.py").read_text()
    changes = {"torch/__init__.py": original + refuse}
    project = torch_project.make(tmp_path / "project", changes)
    Site(tmp_path / "place", project, built.lock, built.client).run()


@pytest.mark.rebuild
def test_without_namespaces_it_says_so_and_the_path_is_in_the_bytes(built: Site) -> None:
    place = built.elsewhere(built.root.parents[1] / "three" / "place")
    place.root.parent.mkdir()
    output = build(place, [*WITHOUT_NAMESPACES, sys.executable, "-m", "patchgen"])
    reason = "namespaces: No space left on device"
    line = f"seen at      {place.work}: its path will be in the wheel; no namespaces: {reason}\n"
    assert line in output
    (one,), (three,) = built.wheels, place.wheels
    assert one.read_bytes() != three.read_bytes()
    assert str(place.work).encode() in library(three)
    assert provenance(three)["buildPath"] == f"{place.work}/source"
    assert provenance(three)["isolation"] == {
        "namespaces": reason,
        "network": {"compile": "host", "wheel": "host", "verify": "host"},
    }
    # With namespaces it is another path, so the environment and the objects are made anew.
    planned = place.run("--dry-run").stdout
    assert re.findall(r"^  done +(\w+)$", planned, re.MULTILINE) == ["lock", "source"]


def test_a_step_that_asks_for_the_network_is_named(site: Site, tmp_path: Path) -> None:
    asking = (
        "file(DOWNLOAD http://192.0.2.7/asset.tgz ${CMAKE_BINARY_DIR}/asset.tgz STATUS status)\n"
        'message(FATAL_ERROR "http://192.0.2.7/asset.tgz: ${status}")\n'
    )
    changes = {f"{torch_project.SUBMODULE}/CMakeLists.txt": asking}
    project = torch_project.make(tmp_path / "project", changes)
    place = Site(tmp_path / "place", project, site.lock, site.client)
    output = place.run(*HERE, code=4).stderr
    assert "compile: CMake Error at third_party/tiny/CMakeLists.txt:2" in output
    assert "http://192.0.2.7/asset.tgz: " in output
    assert "\na build reaches no network: " in output
    assert os.fspath(place.work / "logs" / "build.log") in output
