"""The source archive: its bytes, and the client libraries that its backend refuses."""

from __future__ import annotations

import os
import platform
import re
import tarfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import patchgen
from patchgen.errors import OptionsError
from patchgen.extras.client import fixes
from patchgen.extras.install.plugin import backend, project, sdist
from patchgen.extras.lab import simulator
from patchgen.options import Options, resolve
from patchgen.templates import DIRECTORY

PACKAGE = Path(patchgen.__file__).parent
ENTRY, DPDK = b"_ZN8switchml7Context11GetInstanceEv\0", b"_ZTVN8switchml11DpdkBackendE\0"


def options(tmp_path: Path, home: Path | None = None, **flags: bool) -> Options:
    return resolve({**flags, "switchml_home": str(home or tmp_path)}, {}, str(tmp_path))


def contents(path: str) -> dict[str, bytes]:
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            assert (member.mode, member.uid, member.gid, member.uname) == (0o644, 0, 0, "")
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.partition("/")[2]] = file.read()
    return found


def test_without_a_home_it_is_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is installed for as long as the build lasts."""
    places: list[Path] = []
    monkeypatch.setattr(simulator, "install", places.append)
    with backend._home({}) as home:
        assert places == [Path(home)]
        assert places[0].is_dir()
    assert not places[0].exists()
    with backend._home({"SWITCHML_HOME": "/named"}) as home:
        assert (home, len(places)) == ("/named", 1)


def test_the_same_flags_give_the_same_bytes(tmp_path: Path) -> None:
    one = sdist.write(options(tmp_path, dpdk=True), str(tmp_path / "one"))
    mask = os.umask(0o077)
    try:
        two = sdist.write(options(tmp_path, Path("/opt"), dpdk=True), str(tmp_path / "two"))
    finally:
        os.umask(mask)
    assert os.path.basename(one) == f"torch_switchml-{patchgen.__version__}+switchml.dpdk.tar.gz"
    assert Path(one).read_bytes() == Path(two).read_bytes()


def test_the_archive_has_the_package_as_it_is(tmp_path: Path) -> None:
    found = contents(sdist.write(options(tmp_path), str(tmp_path)))
    for module in PACKAGE.rglob("*.py"):
        assert found[f"patchgen/{module.relative_to(PACKAGE)}"] == module.read_bytes()
    templates = [path for path in Path(DIRECTORY).rglob("*") if path.suffix in {".cpp", ".hpp"}]
    for template in templates:
        name = f"patchgen/templates/{template.relative_to(DIRECTORY)}"
        assert found[name] == template.read_bytes()
    assert not [name for name in found if name.endswith(".j2")]
    flags = found["patchgen/templates/patch/switchml.cmake"].decode()
    assert flags == project.render_flags(options(tmp_path))


def test_metadata(tmp_path: Path) -> None:
    found = contents(sdist.write(options(tmp_path, rdma=True, debug=True), str(tmp_path)))
    lines = dict(line.split(": ", 1) for line in found["PKG-INFO"].decode().splitlines())
    assert lines["Name"] == "torch-switchml"
    assert lines["Version"] == f"{patchgen.__version__}+switchml.rdma.debug"
    assert SpecifierSet(lines["Requires-Python"]).contains(platform.python_version())
    assert not SpecifierSet(lines["Requires-Python"]).contains("3.8")
    assert found["flags.json"] == b'{"flags": ["RDMA", "DEBUG"]}\n'


def library(home: Path, *, marks: bytes = b"") -> Path:
    """A home whose archive has the names of a client library with DPDK."""
    for name in ("include/switchml/context.h", "lib/pkgconfig/switchml-client.pc"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    data = ENTRY + DPDK + marks
    data += b"\n" * (len(data) % 2)
    header = f"{'context.o/':<48}{len(data):<10}`\n".encode()
    (home / "lib/libswitchml-client.a").write_bytes(b"!<arch>\n" + header + data)
    return home


def mark(*ids: str) -> bytes:
    listed = ",".join(ids) or "-"
    return f"switchml-patch-client: commit={'0' * 40} flags=DPDK fixes={listed}\0".encode()


@pytest.mark.parametrize("marks", [b"", mark(), mark("duplicates", "half-batch")])
def test_a_library_without_a_needed_fix_is_refused(tmp_path: Path, marks: bytes) -> None:
    given = options(tmp_path, library(tmp_path / "home", marks=marks), dpdk=True)
    with pytest.raises(OptionsError) as caught:
        backend.check(given, {})
    assert "lacks the fixes" in str(caught.value)
    assert "resent-id" in str(caught.value)
    assert str(caught.value).count("\n") == 1
    backend.check(given, {backend.UNFIXED: "1"})


def test_a_library_with_the_needed_fixes_is_taken(tmp_path: Path) -> None:
    home = library(tmp_path / "home", marks=mark(*fixes.NEEDED["DPDK"]))
    backend.check(options(tmp_path, home, dpdk=True), {})


def test_a_home_without_a_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=r"no .*context\.h\nset SWITCHML_HOME"):
        backend.check(options(tmp_path), {})
    home = library(tmp_path / "home")
    (home / "lib/libswitchml-client.a").write_bytes(b"!<arch>\n")
    with pytest.raises(OptionsError, match=r"holds no objects; name another SWITCHML_HOME"):
        backend.check(options(tmp_path, home), {})


def test_the_needed_fixes_are_those_of_a_rank() -> None:
    source = Path(DIRECTORY, "delegate/src/join/config.cpp").read_text(encoding="utf-8")
    found = re.search(
        r'"rdma"\s*\?\s*std::vector<const char\*>\{(.*?)\}\s*:(.*?)\};', source, re.DOTALL
    )
    assert found
    rdma, dpdk = (tuple(re.findall(r'"([a-z-]+)"', part)) for part in found.groups())
    assert {"RDMA": rdma, "DPDK": dpdk} == fixes.NEEDED
    assert {*rdma, *dpdk} <= {fix.id for fix in fixes.read_shipped()}
