"""Installation of the plugin's wheel with an interpreter's pip, or with uv if it has no pip."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchgen.errors import ToolError
from patchgen.extras.install.plugin.wheel import DISTRIBUTION
from patchgen.system import files, interpreter, outputs, paths
from patchgen.system.payload import run_pip
from patchgen.system.process import CompletedRun, Program, capture

_LOGGER = logging.getLogger(__name__)

_EXTERNAL = ("externally-managed-environment", "is externally managed")  # pip, uv
_INSTALL = ("install", "--quiet", "--no-index")
_NO_PIP = "No module named pip"
_QUIET = ("--disable-pip-version-check", "--no-input")
_GRACE = 60.0  # seconds for pip to finish when this command is ended
_FINISHED = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs a program that ignores SIGTERM, so that it finishes what it has begun."""
_LINES = 5  # last lines of pip's output


def check(python: str, environ: Mapping[str, str]) -> None:
    """Check that pip installs into this interpreter, by installing an empty list.

    Raises:
        ToolError: the program is not Python, pip and uv are missing, or pip refuses.
    """
    interpreter.ask(python, environ)
    _run(python, [*_INSTALL, "--requirement", os.devnull], environ)


def install(python: str, wheel: str, environ: Mapping[str, str]) -> None:
    """Install a wheel, replacing another build of the same version.

    Raises:
        ToolError: pip failed.
    """
    _LOGGER.info("installing for %s", python)
    # A user's settings may require hashes, which only a file of requirements can have.
    with files.scratch("install") as directory:
        requirements = os.path.join(directory, "requirements.txt")
        line = f"{DISTRIBUTION} @ {Path(wheel).as_uri()} --hash=sha256:{files.sha256(wheel)}\n"
        files.write(requirements, line.encode())
        # Two builds may have the same version, and pip skips a version that is installed.
        named = ["--force-reinstall", "--no-deps", "--requirement", requirements]
        with outputs.shared(interpreter.ask(python, environ).purelib):
            _run(python, [*_INSTALL, *named], environ)


def uninstall(python: str, environ: Mapping[str, str]) -> bool:
    """Uninstall the plugin; return False if it is not installed.

    Raises:
        ToolError: the program is not Python, or pip failed.
    """
    if not interpreter.ask(python, environ, packages=[DISTRIBUTION]).packages:
        return False
    _run(python, ["uninstall", "--quiet", DISTRIBUTION], {**environ, "PIP_YES": "1"})
    return True


def _run(python: str, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    tool, ended = "pip", _finish([python, run_pip.__file__, *arguments, *_QUIET], python, environ)
    uv = shutil.which("uv", path=environ.get("PATH"))
    if ended.code != 0 and uv and _NO_PIP in ended.err.decode(errors="replace"):
        tool = "uv"
        ended = _finish([uv, "pip", *arguments, "--no-config", "--python", python], python, environ)
    if ended.code == 0:
        return
    text, name = ended.err.decode(errors="replace"), paths.describe(python)
    if _NO_PIP in text:
        raise ToolError(
            f"{name}: has no pip; install it ({name} -m ensurepip; Debian: python3-pip) or uv, or "
            "name a virtual environment that has the torch with --torch"
        )
    if any(words in text for words in _EXTERNAL):
        raise ToolError(
            f"{name}: its {tool} installs nothing, because the system manages its packages; make a "
            f"virtual environment with {name} -m venv --system-site-packages DIR, and name it with "
            "--torch DIR/bin/python"
        )
    raise ToolError("\n".join([f"{name}: {tool} {ended.how}", *ended.last_lines(_LINES)]))


def _finish(command: Sequence[str], python: str, environ: Mapping[str, str]) -> CompletedRun:
    shielded = [python, "-c", _FINISHED, *command]
    return capture(Program(shielded, "/", environ, supervised=True, grace=_GRACE), limit=None)
