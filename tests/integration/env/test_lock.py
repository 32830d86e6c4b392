from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rattler import LockFile
from support.conda import PLATFORM, Channel, Package, Site
from support.web import serve_files

from patchgen.core.wheel.conda import lockfile

TOOL = Package("tool", depends=("lib >=1", "__glibc >=2.17"), files={"bin/tool": "1"})
OLD = Package("lib", "1.5", files={"lib/lib": "alpha"}, old_format=True)
NEW = Package("lib", "2.0", files={"lib/lib": "beta"})
PURE = Package("pure", subdir="noarch", noarch="generic", files={"share/pure": "x"})


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.new(tmp_path)


@pytest.fixture
def alpha(tmp_path: Path) -> Channel:
    return Channel.holding(tmp_path / "channels" / "al pha", TOOL, OLD)


@pytest.fixture
def beta(tmp_path: Path) -> Channel:
    return Channel.holding(tmp_path / "channels" / "beta", NEW, PURE)


def versions(site: Site) -> dict[str, str]:
    return {name: package.version for name, package in site.locked().items()}


def test_a_newer_version_of_a_lower_channel_is_not_taken(
    site: Site, alpha: Channel, beta: Channel
) -> None:
    output = site.relock([alpha.url, beta.url], ["tool", "pure"])
    assert "3 packages for linux-64" in output
    assert versions(site) == {"lib": "1.5", "pure": "1.0", "tool": "1.0"}
    assert site.locked()["tool"].depends == (("__glibc", ">=2.17"), ("lib", ">=1"))
    assert site.locked()["lib"].url == alpha.path(OLD).as_uri()
    site.relock([beta.url, alpha.url], ["tool"])
    assert versions(site)["lib"] == "2.0"


def test_a_package_comes_from_the_channel_that_its_spec_names(
    site: Site, alpha: Channel, beta: Channel
) -> None:
    site.ask(["conda-forge"], ["tool", "beta::lib"])
    site.lock("--channel", f"alpha={alpha.url}", "--channel", f"beta={beta.url}")
    assert versions(site) == {"lib": "2.0", "tool": "1.0"}
    assert lockfile.read(str(site.lock_file)).channels == (alpha.url, beta.url)


def test_the_lock_is_one_for_conda_lock_and_for_rattler(
    site: Site, alpha: Channel, beta: Channel
) -> None:
    own: dict[str, Any] = {
        "link_scripts": ["tool"], "required_files": ["bin/tool", "lib/a b"],
        "virtual_packages": {"cuda": "10.1"},
    }  # fmt: skip
    site.relock([alpha.url, beta.url], ["tool", "pure"], **own)
    from conda_lock.lockfile import parse_conda_lock_file  # warns on import

    parsed = parse_conda_lock_file(site.lock_file)
    assert [p.name for p in parsed.package] == ["lib", "pure", "tool"]
    assert parsed.metadata.sources == ["environment.yml"]
    assert parsed.metadata.custom_metadata == {
        "link_scripts": "tool",
        "required_files": "bin/tool 'lib/a b'",
        "virtual_packages": "archspec=1=x86_64,cuda=10.1,glibc=2.17,linux=3.10,unix=0",
    }
    environment = LockFile.from_path(site.lock_file).default_environment()
    assert environment is not None
    (records,) = environment.conda_repodata_records().values()
    found = {record.name.normalized: record for record in records}
    for name, package in site.locked().items():
        assert found[name].url == package.url
        assert (found[name].sha256 or b"").hex() == package.sha256
        assert (found[name].md5 or b"").hex() == package.md5


def test_a_lock_is_read_as_it_was_written(site: Site, alpha: Channel, beta: Channel) -> None:
    own: dict[str, Any] = {
        "link_scripts": ["tool", "lib"],
        "required_files": ["bin/tool", "lib/a b"],
    }
    site.relock([alpha.url, beta.url], ["tool", "pure"], **own)
    read = lockfile.read(str(site.lock_file))
    lockfile.write(read, str(site.root / "again.yml"))
    assert (site.root / "again.yml").read_bytes() == site.lock_file.read_bytes()
    assert read.link_scripts == ("tool", "lib")
    assert read.required_files == ("bin/tool", "lib/a b")


def test_the_same_solution_gives_the_same_bytes(site: Site, alpha: Channel, beta: Channel) -> None:
    site.relock([alpha.url, beta.url], ["tool", "pure"])
    first = site.lock_file.read_bytes()
    alpha.add(Package("unrelated"))
    site.relock([alpha.url, beta.url], ["tool", "pure"])
    assert site.lock_file.read_bytes() == first


def test_over_http_the_lock_says_the_same_but_for_the_address(
    site: Site, alpha: Channel, tmp_path: Path
) -> None:
    site.relock([alpha.url], ["tool"])
    local = site.lock_file.read_text()
    with serve_files(tmp_path / "channels") as url:
        remote = f"{url}/al%20pha"
        site.relock([remote], ["tool"])
    there = site.lock_file.read_text().replace(remote, alpha.url)

    def without_hash(text: str) -> str:
        return "\n".join(line for line in text.splitlines() if f"    {PLATFORM}: " not in line)

    assert without_hash(there) == without_hash(local)


def test_stated_virtual_packages_decide(site: Site, alpha: Channel) -> None:
    output = site.relock([alpha.url], ["tool"], virtual_packages={"glibc": "2.12"}, code=2)
    assert "no solution for linux-64 with" in output
    assert "glibc 2.12" in output
    assert "__glibc" in output
    assert not site.lock_file.exists()


@pytest.mark.parametrize(
    ("specs", "code", "named"),
    [
        (["tool >5"], 2, "No candidates were found for tool >5"),
        (["tool", "lib >=2"], 2, "lib >=2"),
        (["nosuch"], 2, "nosuch"),
        (["tool ==="], 2, "dependency 'tool ==='"),
        (["gamma::tool"], 2, "gamma"),
    ],
)
def test_what_cannot_be_solved_is_reported_and_leaves_the_lock(
    site: Site, alpha: Channel, specs: list[str], code: int, named: str
) -> None:
    site.lock_file.write_text("as it was")
    assert named in site.relock([alpha.url], specs, code=code)
    assert site.lock_file.read_text() == "as it was"


def test_a_link_script_of_no_package_is_a_typing_error(site: Site, alpha: Channel) -> None:
    output = site.relock([alpha.url], ["tool"], link_scripts=["tol"], code=2)
    assert "link_scripts: tol: not among the packages" in output
    assert not site.lock_file.exists()


@pytest.mark.parametrize("name", ["openmpi", "mpich", "libtool"])
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{}", 2),
        ("{}=2.0", 2),
        ("{}=*=*_0", 2),
        ("alpha::{}", 2),
        ("{}=1.0", 0),
        ("{}=*=external_*", 0),
        ("{} * external*", 0),
        ("{}=2.0=external_0", 0),
        ("{}[build=external_0]", 0),
    ],
)
def test_an_empty_package_for_one_of_the_system_is_locked_only_if_the_file_asks(
    site: Site, alpha: Channel, name: str, text: str, code: int
) -> None:
    alpha.add(Package(name), Package(name, "2.0", build_string="external"))
    site.ask([alpha.url], ["tool", text.format(name)])
    output = site.lock("--channel", f"alpha={alpha.url}", code=code)
    assert site.lock_file.exists() == (code == 0)
    if code:
        assert (
            f"{name} 2.0 external_0 is empty: it stands for {name} of the system\n"
            f"name a version of {name} that has another build, or ask for this one with "
            f"{name}=*=external_0\n"
        ) in output


def test_an_empty_package_that_the_file_does_not_name_has_a_warning(
    site: Site, alpha: Channel
) -> None:
    alpha.add(
        Package("mpi4py", depends=("mpich",)),
        Package("mpich", build_string="external"),
        Package("externals", build_string="py37_externals"),
    )
    output = site.relock([alpha.url], ["mpi4py", "externals"])
    assert "warning: mpich 1.0 external_0 is empty" in output
    assert set(site.locked()) == {"mpi4py", "mpich", "externals"}


def test_a_channel_that_cannot_be_read_is_named(site: Site, tmp_path: Path) -> None:
    assert "nowhere" in site.relock([(tmp_path / "nowhere").as_uri()], ["tool"], code=4)
    with serve_files(tmp_path) as url:
        pass
    output = site.relock([f"{url}/alpha"], ["tool"], code=4)
    assert "a channel cannot be read" in output
    assert "name a mirror of it with --channel NAME=URL" in output
    assert url in output
    assert "name one with --channel" in site.relock([], ["tool"], code=2)


@pytest.mark.parametrize("gone", ["md5", "sha256"])
def test_a_channel_without_hashes_is_refused(site: Site, alpha: Channel, gone: str) -> None:
    path = alpha.root / PLATFORM / "repodata.json"
    data = json.loads(path.read_text())
    for package in [*data["packages"].values(), *data["packages.conda"].values()]:
        del package[gone]
    path.write_text(json.dumps(data))
    assert f"gives no {gone}" in site.relock([alpha.url], ["tool"], code=2)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", "no conda-lock.yml: not what conda-lock writes"),
        ("junk", "no conda-lock.yml: not what conda-lock writes"),
        ("version: 7", "version 7"),
        ("a: [", "no conda-lock.yml"),
    ],
)
def test_what_is_no_lock_is_refused(site: Site, content: str, named: str) -> None:
    site.lock_file.write_text(content)
    assert named in site.create(code=2)
    site.lock_file.unlink()
    output = site.create(code=5)
    assert f"{site.lock_file}: no such file; make it with: switchml-patch env lock" in output
    assert not site.prefix.exists()
