"""ci/packages, with stand-ins for the programs of Debian."""

from __future__ import annotations

import os
import re
from pathlib import Path

from support.programs import script
from support.waiting import captured

ROOT = Path(__file__).parents[2]
APT_GET = """\
#!/bin/sh
echo "$@" >>{log}
case "$*" in *install*) echo 'E: Unable to locate package none' >&2; exit 100;; esac
"""


def test_packages_have_the_names_of_more_than_one_release(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for name, text in {
        "apt-get": APT_GET.format(log=log),
        "dpkg-query": "#!/bin/sh\nexit 1\n",
        "id": "#!/bin/sh\necho 0\n",
    }.items():
        script(tmp_path / "bin" / name, text)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = captured([ROOT / "ci" / "packages"], env={**os.environ, "PATH": path})
    assert done.returncode == 1
    advice = "ci/packages: apt-get failed; the packages are those of Debian 12 or 13"
    assert f"none\n{advice}, this is " in done.stderr
    wanted = log.read_text().splitlines()[-1]
    assert "libclang-rt-dev" in wanted
    assert not re.search(r"-\d+\b", wanted)
