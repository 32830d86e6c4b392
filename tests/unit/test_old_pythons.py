"""What runs in somebody else's Python does so in every one that is here, the oldest first."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import sys
from functools import cache
from pathlib import Path

import pytest
from support.waiting import captured

import patchgen
from patchgen.core.torch import probe_torch
from patchgen.errors import ToolError
from patchgen.system import interpreter
from patchgen.system.payload import supervisor

PAYLOADS = sorted(Path(patchgen.__file__).parent.rglob("payload"))
FILES = [path for payload in PAYLOADS for path in sorted(payload.rglob("*.py"))]
OLDEST = (3, 6)
# Compiles each module, and imports it, but for the one that imports torch.
IMPORT = """
import importlib.util, sys
sys.path[:0] = [sys.argv[1]]
for name in sys.argv[2:]:
    importlib.util.find_spec(name).loader.get_code(name)
    if name != "train":
        importlib.import_module(name)
"""


@cache
def version(python: str) -> tuple[int, ...]:
    done = captured([python, "-I", "-c", "import sys; print(*sys.version_info[:2])"])
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()


def pythons() -> list[str]:
    """One for each version: of PATH, of the system, and of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT") or Path("~/.pyenv").expanduser())
    found_here = (*Path("/usr/bin").glob("python3.*"), *root.glob("versions/*/bin/python"))
    places = [sys.executable, *map(str, found_here)]
    usable = [place for place in places if re.fullmatch(r"python[0-9.]*", os.path.basename(place))]
    found = {version(place): place for place in reversed(usable)}
    minors = {key[:2] for key in found}
    names = [f"python3.{minor}" for minor in range(OLDEST[1], 30) if (3, minor) not in minors]
    found |= {version(place): place for place in filter(None, map(shutil.which, names))}
    return [found[key] for key in sorted(found) if key >= OLDEST]


PYTHONS = pythons()


def run(python: str, *arguments: str, code: int = 0) -> str:
    command = [python, "-W", "error", "-B", *arguments]
    done = captured(command, env={"PATH": os.environ["PATH"]})
    assert (done.returncode, done.stderr) == (code, ""), done.stderr
    return done.stdout


def test_nothing_newer_than_the_oldest_python_is_used() -> None:
    run(
        sys.executable, "-W", "ignore", "-c", "import vermin; vermin.main()", "--target=3.6-",
        "--no-tips", "--violations", "--quiet", *map(str, FILES),
    )  # fmt: skip


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.parent.name)
def test_every_file_is_of_its_language_and_needs_its_library_only(
    payload: Path, python: str
) -> None:
    modules = [path.relative_to(payload).with_suffix("") for path in payload.rglob("*.py")]
    names = [".".join(one.parts) for one in modules]
    run(python, "-I", "-S", "-c", IMPORT, str(payload), *names)


def supervised(python: str, *command: str) -> tuple[int, str, str, bytes]:
    """The return code, stdout and stderr of a command, and what is told of its start."""
    (stop, hold), (message, tells) = os.pipe(), os.pipe()
    program = [python, "-I", supervisor.__file__, str(stop), str(tells), *command]
    done = captured(program, pass_fds=[stop, tells])
    for end in (stop, hold, tells):
        os.close(end)
    with open(message, "rb") as file:
        return done.returncode, done.stdout, done.stderr, file.read()


@pytest.mark.parametrize("python", PYTHONS)
def test_the_supervisor_ends_as_its_command_does(python: str) -> None:
    """It ends what the command has left, and tells why one cannot be started."""
    code, out, err, message = supervised(python, "sh", "-c", "sleep 600 & echo $!; exit 3")
    assert (code, err, message) == (3, "", b"")
    assert not Path(f"/proc/{out.strip()}").exists()
    assert supervised(python, "sh", "-c", "kill -TERM $$") == (-signal.SIGTERM, "", "", b"")
    assert supervised(python, "sh", "-c", "kill -KILL $$") == (-signal.SIGKILL, "", "", b"")
    assert supervised(python, "no-such-program") == (1, "", "", b"%d" % errno.ENOENT)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_probe_tells_of_every_python(python: str) -> None:
    wanted = interpreter.ask(python, {"PATH": os.environ["PATH"]}, packages=["none-such"])
    assert tuple(map(int, wanted.version.split(".")[:2])) == version(python)
    assert wanted.tag == "cp{}{}".format(*version(python))
    assert (wanted.packages, wanted.problems) == ({}, {})
    assert wanted.ended.err == b""


def test_what_was_found_before_a_crash_is_known(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("import os, sys; sys.stderr.write('x\\n'); os.abort()")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    installed = probe_torch(sys.executable, environ)
    assert (installed.root, installed.torch) == (str(package), None)
    assert installed.problem == "died of SIGABRT: x"
    with pytest.raises(ToolError, match="cannot import torch: died of SIGABRT: x"):
        installed.require_gloo()
