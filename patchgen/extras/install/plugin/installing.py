"""Installs the plugin's wheel with the pip of an interpreter."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence

from patchgen.errors import ToolError
from patchgen.extras.install.plugin.wheel import DISTRIBUTION
from patchgen.system import interpreter, paths
from patchgen.system.process import Program, capture

_LOGGER = logging.getLogger(__name__)

_EXTERNAL = "externally-managed-environment"
_NO_PIP = "No module named pip"
_QUIET = ("--disable-pip-version-check", "--quiet", "--no-input", "--no-index")
_GRACE = 60.0  # seconds that pip has to finish where this command is told to end
_PIP = """
import runpy, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""pip, which finishes what it has begun."""
_LINES = 5  # of what pip wrote last


def check(python: str, environ: Mapping[str, str]) -> None:
    """Asks pip to install nothing, which it refuses where it would refuse a wheel.

    Args:
        python: path of the interpreter.
        environ: environment of pip.

    Raises:
        ToolError: it is no interpreter, has no pip, or its pip does not install there.
    """
    interpreter.ask(python, environ)
    _run(python, ["--requirement", os.devnull], environ)


def install(python: str, wheel: str, environ: Mapping[str, str]) -> None:
    """Installs a wheel in place of another build of the same version.

    Args:
        python: path of the interpreter.
        wheel: path of the wheel.
        environ: environment of pip and the interpreter.

    Raises:
        ToolError: pip failed, or the interpreter does not find what pip installed.
    """
    _LOGGER.info("installing for %s", python)
    # pip leaves out a wheel whose version is installed already, and two builds may have the same.
    _run(python, ["--force-reinstall", "--no-deps", wheel], environ)
    if DISTRIBUTION not in interpreter.ask(python, environ, packages=[DISTRIBUTION]).packages:
        raise ToolError(
            f"{paths.describe(python)}: pip installed {DISTRIBUTION} where this interpreter does "
            "not look for packages; name a virtual environment with --torch"
        )


def _run(python: str, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    command = [python, "-c", _PIP, "install", *_QUIET, *arguments]
    program = Program(command, "/", environ, supervised=True, grace=_GRACE)
    ended = capture(program, limit=None)
    if ended.code == 0:
        return
    text, name = ended.err.decode(errors="replace"), paths.describe(python)
    if _NO_PIP in text:
        raise ToolError(
            f"{name}: has no pip; install it ({name} -m ensurepip; Debian: python3-pip), or name a "
            "virtual environment that has the torch with --torch"
        )
    if _EXTERNAL in text:
        raise ToolError(
            f"{name}: its pip installs nothing, because the system manages its packages; make a "
            f"virtual environment with {name} -m venv --system-site-packages DIR, and name it with "
            "--torch DIR/bin/python"
        )
    raise ToolError("\n".join([f"{name}: pip {ended.how}", *ended.last_lines(_LINES)]))
