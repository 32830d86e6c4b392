"""Stand-ins for the actions of the workflows.

actions/checkout
    commits the files of this repository in the workspace; other texts may take the place of some.
    What the job before has left there is removed, but for .venv, which takes long to make.
actions/setup-python
    puts this Python before PATH as `python` and `python3`, whatever version is asked for. Virtual
    environments that it makes see the packages of the tests, as if pip had downloaded them.
actions/cache
    restores from a directory of the machine, and saves there by the key when no step failed.
actions/upload-artifact
    copies the files into a directory of the machine by the artifact's name.
actions/attest
    notes the digests of the subjects.

`sudo` runs its command. `apt-get` takes packages that are installed already, and fails for others.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from support.workflow import StepFailed
from support.workflow_expressions import UnknownError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.workflow import Action, Runner

REPOSITORY = Path(__file__).resolve().parents[2]

_APT = """\
#!/bin/sh
# Takes packages that are installed already.
words=
for word; do
  case $word in -*) ;; *) words="$words $word" ;; esac
done
set -- $words
[ "$1" = update ] && exit 0
[ "$1" = install ] || { echo "apt-get $1: not known to the tests" >&2; exit 100; }
shift
for package; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)
  [ "$status" = installed ] || { echo "E: $package is not installed here" >&2; exit 100; }
done
"""
_PYTHON = """\
#!/bin/sh
# Makes virtual environments that see the packages of the tests.
if [ "${{1:-}}" != -m ] || [ "${{2:-}}" != venv ]; then exec {python} "$@"; fi
for directory; do :; done
{python} -m venv --without-pip "$directory"
for site in "$directory"/lib/python*/site-packages; do echo {packages} >"$site/tests.pth"; done
printf '#!/bin/sh\\nexec "$(dirname "$0")/python" -m pip "$@"\\n' >"$directory/bin/pip"
chmod +x "$directory/bin/pip"
"""


def programs(directory: Path) -> Path:
    """Writes the stand-ins for sudo and apt-get."""
    _script(directory / "sudo", '#!/bin/sh\nexec "$@"\n')
    _script(directory / "apt-get", _APT)
    return directory


def python(directory: Path) -> Path:
    """Writes the stand-in for an installed Python."""
    text = _PYTHON.format(python=sys.executable, packages=sysconfig.get_path("purelib"))
    for name in ("python", "python3"):
        _script(directory / name, text)
    return directory


def actions(overlay: Mapping[str, str]) -> dict[str, Action]:
    """The stand-ins by the names of the actions.

    Args:
        overlay: texts that take the place of files of the repository.
    """

    def checkout(runner: Runner, given: Mapping[str, str]) -> None:
        _take("actions/checkout", given, "persist-credentials")
        _check_out(runner.machine.workspace, overlay)

    return {
        "actions/checkout": checkout,
        "actions/setup-python": _setup_python,
        "actions/cache": _cache,
        "actions/upload-artifact": _upload,
        "actions/attest": _attest,
    }


def _take(action: str, given: Mapping[str, str], *known: str) -> list[str]:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UnknownError(f"{action} with {', '.join(unknown)}")
    return [given.get(name, "") for name in known]


def _check_out(workspace: Path, overlay: Mapping[str, str]) -> None:
    for entry in workspace.iterdir():
        if entry.is_dir() and entry.name != ".venv":
            shutil.rmtree(entry)
        elif not entry.is_dir():
            entry.unlink()
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=REPOSITORY, text=True,
        stdout=subprocess.PIPE, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        if (REPOSITORY / name).exists():
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, workspace / name)
    for name, text in overlay.items():
        (workspace / name).write_text(text)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "checked out"]):
        subprocess.run(["git", *command], cwd=workspace, check=True)


def _setup_python(runner: Runner, given: Mapping[str, str]) -> None:
    _take("actions/setup-python", given, "python-version")
    runner.add_path(python(runner.machine.root / "python"))


def _cache(runner: Runner, given: Mapping[str, str]) -> None:
    paths, key, others = _take("actions/cache", given, "path", "key", "restore-keys")
    store = runner.machine.root / "caches"
    saved = sorted(path.name for path in store.iterdir()) if store.exists() else []
    wanted = [key, *(line.strip() for line in others.splitlines())]
    named = [_file_name(one) for one in wanted if one]
    hit = next((name for one in named for name in saved if name.startswith(one)), None)
    places = [line.strip().replace("~", str(runner.machine.home)) for line in paths.splitlines()]
    for number, place in enumerate(filter(None, places)):
        if hit and (store / hit / str(number)).exists():
            _replace(store / hit / str(number), Path(place))

    def save() -> None:
        for number, place in enumerate(filter(None, places)):
            if os.path.isdir(place):
                _replace(Path(place), store / _file_name(key) / str(number))

    if hit != _file_name(key):
        runner.after.append(save)


def _replace(source: Path, target: Path) -> None:
    """Copies a directory to a place where another job may have left one."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)


def _upload(runner: Runner, given: Mapping[str, str]) -> None:
    name, paths, missing = _take(
        "actions/upload-artifact", given, "name", "path", "if-no-files-found"
    )
    found = runner.files(paths)
    if not found and missing == "error":
        raise StepFailed(f"No files were found with the provided path: {paths}")
    target = runner.machine.root / "artifacts" / _file_name(name)
    target.mkdir(parents=True)
    for path in found:
        copy = shutil.copytree if path.is_dir() else shutil.copy2
        copy(path, target / path.name)


def _attest(runner: Runner, given: Mapping[str, str]) -> None:
    (paths,) = _take("actions/attest", given, "subject-path")
    found = runner.files(paths)
    if not found:
        raise StepFailed(f"Could not find subject at path {paths}")
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
    (runner.machine.root / "attested.json").write_text(json.dumps(digests))


def _file_name(text: str) -> str:
    return text.replace("/", "_")


def _script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
