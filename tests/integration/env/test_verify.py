from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.conda import Channel, Package, Site

TOOL = Package(
    "tool", depends=("lib",), files={"bin/tool": "#!/bin/sh\n", "lib/link": ("../bin/tool",)}
)
LIB = Package("lib", "1.5", files={"lib/lib": "alpha", "lib/empty": ""})
NVCC = """\
set -e
printf '#!/bin/sh\\necho "Cuda compilation tools, release 10.1, V%s"\\n' {} > "$PREFIX/bin/nvcc"
chmod 755 "$PREFIX/bin/nvcc"
"""


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return Channel.holding(tmp_path / "alpha", TOOL, LIB)


@pytest.fixture
def site(tmp_path: Path, channel: Channel) -> Site:
    site = Site.locked_to(tmp_path, channel)
    site.create()
    return site


def edit(site: Site, package: str, changes: dict[str, Any]) -> None:
    (path,) = (site.prefix / "conda-meta").glob(f"{package}-*.json")
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, **changes}))


def test_what_holds_is_ticked(site: Site) -> None:
    said = site.verify("--contents")
    assert said.count("[x]") == 4
    assert "[ ]" not in said


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"version": "1.4"}, "lib: version 1.4, not 1.5"),
        ({"build": "h1_0"}, "lib: build h1_0, not h0_0"),
        ({"sha256": "0" * 64}, f"lib: sha256 {'0' * 64}, not "),
        ({"md5": "0" * 32}, f"lib: md5 {'0' * 32}, not "),
        ({"md5": None, "sha256": None}, "lib: its record has no hash"),
        ({"name": "other"}, "lib: missing"),
        ({"name": "other"}, "other: not in the lock"),
    ],
)
def test_a_package_that_differs_is_named(site: Site, changes: dict[str, Any], named: str) -> None:
    edit(site, "lib", changes)
    said = site.verify(code=6)
    assert named in said
    assert "[ ] 2 packages, as locked" in said


def test_a_record_with_only_one_hash_is_enough(site: Site) -> None:
    edit(site, "lib", {"md5": None})
    site.verify()


@pytest.mark.parametrize(
    ("name", "package"), [("lib/lib", "lib"), ("lib/link", "tool"), ("lib/empty", "lib")]
)
def test_a_file_that_is_gone_is_named(site: Site, name: str, package: str) -> None:
    (site.prefix / name).unlink()
    assert f"{package}: {name}: missing" in site.verify(code=6)


def test_a_file_that_was_changed_is_named_where_contents_are_read(site: Site) -> None:
    (site.prefix / "lib/empty").write_text("x")
    site.verify()
    assert "lib: lib/empty: changed" in site.verify("--contents", code=6)


def test_many_problems_are_counted(site: Site, channel: Channel) -> None:
    channel.add(Package("many", files={f"share/{n}": "" for n in range(30)}))
    site.ask([channel.url], ["many"])
    site.lock()
    prefix = site.root / "many"
    site.run("create", "-o", prefix, "--lock", site.lock_file, "--cache", site.cache)
    for n in range(30):
        (prefix / f"share/{n}").unlink()
    said = site.run("verify", prefix, "--lock", site.lock_file, code=6)
    assert said.count(": missing") == 10
    assert "and 20 more" in said


def test_data_for_scripts_says_the_same(site: Site) -> None:
    assert json.loads(site.verify("--json"))["ok"] is True
    (site.prefix / "lib/lib").unlink()
    data = json.loads(site.verify("--json", code=6))
    assert data["ok"] is False
    failed = [check for check in data["checks"] if not check["ok"]]
    assert [check["problems"] for check in failed] == [["lib: lib/lib: missing"]]


def test_a_directory_that_is_no_environment_is_refused(site: Site, tmp_path: Path) -> None:
    for prefix in (tmp_path, tmp_path / "nowhere"):
        said = site.run("verify", prefix, "--lock", site.lock_file, code=3)
        assert "no conda environment" in said
    (site.prefix / "conda-meta" / "broken-1-0.json").write_text("{")
    assert "broken-1-0.json: no record" in site.verify(code=3)


def test_a_prefix_of_another_tool_is_compared_too(site: Site) -> None:
    (site.prefix / "conda-meta/switchml-patch").unlink()
    site.verify("--contents")


def test_a_changed_environment_file_makes_the_lock_stale(site: Site, channel: Channel) -> None:
    site.file.write_text(site.file.read_text() + "\n# a comment\n")
    site.verify()
    site.ask([channel.url], ["tool", "lib >=1.5"])
    assert "has changed since" in site.verify(code=6)
    assert "warning: " in site.create()
    site.lock()
    site.create()
    site.verify()
    site.file.unlink()
    site.verify()


@pytest.mark.parametrize(
    ("version", "code", "named"),
    [("10.1.243", 0, "[x] nvcc is of CUDA 10.1.243"), ("10.2.89", 6, "is V10.2.89, not V10.1.243")],
)
def test_nvcc_is_asked_for_its_version(
    site: Site, channel: Channel, version: str, code: int, named: str
) -> None:
    script = {"bin/.cudatoolkit-dev-post-link.sh": NVCC.format(version)}
    channel.add(Package("cudatoolkit-dev", "10.1.243", files=script))
    site.ask([channel.url], ["cudatoolkit-dev"], link_scripts=["cudatoolkit-dev"])
    site.lock()
    prefix = site.root / "cuda"
    create = site.create_arguments(prefix)
    verify: list[str | Path] = ["verify", prefix, "--lock", site.lock_file]
    site.run(*create, "--no-link-scripts")
    assert "nvcc: missing" in site.run(*verify, code=6)
    site.run(*create)
    assert named in site.run(*verify, code=code)
    (prefix / "bin/nvcc").write_text("#!/bin/sh\nexit 9\n")
    assert "return code 9" in site.run(*verify, code=6)
