"""ci/packages and ci/test, with stand-ins for the programs of Debian and for Python."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from support.programs import script
from support.waiting import captured

CI = Path(__file__).parents[2] / "ci"
APT_GET = """\
#!/bin/sh
echo "$@" >>{log}
case "$*" in *install*) echo 'E: Unable to locate package none' >&2; exit 100;; esac
"""


def path_with(directory: Path, **more: str) -> str:
    """Return the PATH with programs of a Debian where all packages are missing, for its root."""
    own = {"dpkg-query": "#!/bin/sh\nexit 1\n", "id": "#!/bin/sh\necho 0\n"}
    for name, text in {**own, **more}.items():
        script(directory / name.replace("_", "-"), text)
    return f"{directory}:{os.environ['PATH']}"


def test_packages_have_the_names_of_more_than_one_release(tmp_path: Path) -> None:
    log = tmp_path / "log"
    path = path_with(tmp_path / "bin", apt_get=APT_GET.format(log=log))
    done = captured([CI / "packages"], env={**os.environ, "PATH": path})
    assert done.returncode == 1
    advice = "ci/packages: apt-get failed; the packages are those of Debian 12 or 13"
    assert f"none\n{advice}, this is " in done.stderr
    wanted = log.read_text().splitlines()[-1]
    assert "libclang-rt-dev" in wanted
    assert not re.search(r"-\d+\b", wanted)


def run_tests(path: str, venv: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    given = {"PATH": path, "PYTHON": "python", "VENV": str(venv), **environ}
    return captured([CI / "test"], env={**outside, **given})


@pytest.mark.parametrize(("user", "advice"), [(0, "apt-get failed"), (1000, "which root installs")])
def test_no_environment_is_made_without_packages(user: int, advice: str, tmp_path: Path) -> None:
    """Debian's own Python waits for packages that root installs, and other users do."""
    path = path_with(
        tmp_path / "bin",
        apt_get=APT_GET.format(log=tmp_path / "log"),
        id=f"#!/bin/sh\necho {user}\n",
        python=f"#!/bin/sh\necho {'/opt' if user else '/usr'}\n",
    )
    done = run_tests(path, tmp_path / "venv")
    assert done.returncode == 1
    assert advice in done.stderr
    assert not (tmp_path / "venv").exists()


def test_no_test_runs_without_packages_that_are_installed_meanwhile(tmp_path: Path) -> None:
    """Another Python than Debian's does not wait for them; here all else is there."""
    calls = tmp_path / "calls"
    path = path_with(
        tmp_path / "bin",
        apt_get=APT_GET.format(log=tmp_path / "log"),
        python="#!/bin/sh\necho /opt\n",
        make="#!/bin/sh\n",
    )
    for name in ("python", "pre-commit"):
        script(tmp_path / "venv" / "bin" / name, f'#!/bin/sh\necho {name} "$@" >>{calls}\n')
    done = run_tests(path, tmp_path / "venv")
    assert done.returncode == 1
    assert "ci/packages: apt-get failed" in done.stderr
    assert done.stderr.endswith("because packages are missing: see ci/packages above\n")
    made = calls.read_text()
    assert "pre-commit run" in made
    assert "--collect-only" in made
    assert "-n 4" not in made
