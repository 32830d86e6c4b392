"""What a client library was made from, beside it, and that it has the same bytes anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from support import client_source
from support.modes import closed, umask
from support.programs import script

from patchgen.core.library import origin
from patchgen.core.library.homes import ARCHIVE
from patchgen.extras.client import building, fixes
from patchgen.system import statement
from patchgen.system.files import sha256
from patchgen.system.statement import Provenance

SOURCES = {path: text.encode() for path, text in client_source.FILES.items()}

AR = """\
#!/bin/sh
# Writes times, users and modes, as an ar does that was not built to leave them out.
case "$1" in
  *D*) exec /usr/bin/ar "$@" ;;
esac
words="$1"
shift
exec /usr/bin/ar "${words}U" "$@"
"""


def contents(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*.*")}


def installed(home: Path, *flags: str, **env: str) -> Provenance:
    request = building.ClientRequest(flags, client_source.FIXES)
    building.install(request, SOURCES, str(home), {**os.environ, **env})
    return statement.read(str(home / origin.NAME))


def test_it_says_what_the_library_was_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXXFLAGS", "-O1")
    home = tmp_path / "home"
    output = installed(home)
    assert output.kind == "client"
    assert output.subjects[0].name == ARCHIVE
    assert {one.name: one.sha256 for one in output.subjects} == {
        name: sha256(str(home / name))
        for name in contents(home)
        if name not in {"switchml.cfg", origin.NAME, origin.SBOM}
    }
    assert (output.request["fixes"], output.request["variables"]["CXXFLAGS"]) == (["honest"], "-O1")
    assert output.find_digest("p4app-switchML") == fixes.COMMIT
    version = subprocess.check_output(["c++", "--version"], text=True).splitlines()[0]
    assert output.resolved["toolchain"]["programs"]["c++"] == version
    bill = json.loads((home / origin.SBOM).read_text())
    assert bill["metadata"]["component"]["hashes"][0]["content"] == output.subjects[0].sha256
    (source,) = (one for one in bill["components"] if one["bom-ref"] == "p4app-switchML")
    assert source["version"] == fixes.COMMIT
    assert source["pedigree"]["patches"][0]["resolves"] == [{"id": "honest", "type": "defect"}]
    building.install(building.ClientRequest((), client_source.FIXES), SOURCES, str(home))
    for name in (origin.NAME, origin.SBOM):
        assert not (home / name).exists()  # it would be of the library before


@pytest.mark.parametrize("flags", [pytest.param((), marks=pytest.mark.rebuild), ("DEBUG",)])
def test_another_directory_another_time(
    flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCACHE_DISABLE", "1")
    tools = tmp_path / "tools"
    script(tools / "ar", AR)
    script(tools / "c++", '#!/bin/sh\nexec /usr/bin/c++ "$@"\n')
    monkeypatch.setenv("CXX", str(tools / "c++"))  # CMake takes the ar beside the compiler
    homes = tmp_path / "one", tmp_path / "a longer name"
    tmp_path.chmod(0o755)
    for number, home in enumerate(homes):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / f"scratch {number}"))
        (tmp_path / f"scratch {number}").mkdir()
        with umask(0o077 * number):
            installed(home, *flags)
        assert closed(home) == []
        time.sleep(1.1)  # __TIME__ and the times in archives are in seconds
    assert contents(homes[0]) == contents(homes[1])
    assert b"a longer name" not in (homes[1] / ARCHIVE).read_bytes()
