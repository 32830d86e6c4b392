"""Installation of a graft and its import hook into an interpreter."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping

from patchgen.core.patch import render
from patchgen.core.torch import has_hook
from patchgen.core.torch.payload import torch_probe
from patchgen.errors import FileError, OptionsError, ToolError, TreeError, file_errors
from patchgen.extras.install.payload import graft_hook, sitecustomize
from patchgen.system import files, interpreter, outputs, paths
from patchgen.system.interpreter import Interpreter
from patchgen.system.process import LIMIT, run

PACKAGE = torch_probe.HOOK

_PATH_FILE = f"{PACKAGE}.pth"
# One line, as site requires; silent if the package was deleted by hand.
_PATH_LINE = (
    f'import sys; exec("try:\\n import {PACKAGE}\\n {PACKAGE}.activate(own=True)\\n'
    'except ImportError:\\n pass")\n'
)
_OURS = re.compile(
    rf"__init__\.py|report\.py|{graft_hook.OWN}|{render.LIBRARY}|__pycache__|\..*\.switchml-tmp"
)


def place(directory: str) -> str:
    """Write the package with hook and report module into a directory, and return its path.

    Raises:
        FileError: the directory cannot be written.
    """
    package = os.path.join(directory, PACKAGE)
    with file_errors():
        os.makedirs(package, exist_ok=True)
        with open(graft_hook.__file__, "rb") as file:
            files.replace(os.fsencode(os.path.join(package, "__init__.py")), file.read())
        report = render.report_module().encode()
        files.replace(os.fsencode(os.path.join(package, "report.py")), report)
    return package


def copy(library: str, target: str) -> None:
    """Copy a graft, and the delegate library beside it.

    Raises:
        OSError: the file system refused.
    """
    directory = os.path.dirname(library)
    beside = os.path.join(os.path.dirname(target), render.LIBRARY)
    # The graft comes last, so that none is there without its library.
    for source, path in ((os.path.join(directory, render.LIBRARY), beside), (library, target)):
        with open(source, "rb") as file:
            files.replace(os.fsencode(path), file.read())


def launching(library: str, directory: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose programs load a graft that is not installed.

    `directory` gets the hook, and must be kept as long as the programs run.

    Raises:
        FileError: the directory cannot be written.
    """
    directory = os.path.abspath(directory)
    place(directory)
    with file_errors(), open(sitecustomize.__file__, "rb") as file:
        content = file.read()
        files.replace(os.fsencode(os.path.join(directory, f"{sitecustomize.NAME}.py")), content)
    return {
        **environ,
        "PYTHONPATH": interpreter.search_path(directory, environ),
        graft_hook.VARIABLE: os.path.abspath(library),
    }


def install(python: str, library: str, environ: Mapping[str, str], *, user: bool = False) -> str:
    """Make an interpreter load a graft whenever it imports torch. Replaces an installed graft.

    Copies the graft, and returns the directory of the package.

    Raises:
        OptionsError: the interpreter has no directory for users.
        FileError: the directory cannot be written; nothing is left in it.
        ToolError: the interpreter does not read the directory at its start.
    """
    directory = _directory(interpreter.ask(python, environ), user=user)
    package = os.path.join(directory, PACKAGE)
    with outputs.shared(directory), _undone(directory), _advised(directory):
        os.makedirs(directory, exist_ok=True)
        place(directory)
        copy(library, os.path.join(package, graft_hook.OWN))
        with contextlib.suppress(ToolError):  # Python can compile it at each start as well
            command = [python, "-m", "compileall", "-q", package]
            run(command, cwd="/", env=environ, limit=LIMIT)
        line = _PATH_LINE.encode("ascii")
        files.replace(os.fsencode(os.path.join(directory, _PATH_FILE)), line)
        if not has_hook(python, environ):
            raise ToolError(
                f"{python} does not read {directory} when it starts, so it would never load the "
                "graft; is it started with -S, or by a wrapper?"
            )
    return package


def uninstall(python: str, environ: Mapping[str, str], *, user: bool = False) -> str | None:
    """Remove hook and graft; return the directory of the package, or None if there was none.

    Raises:
        OptionsError: the interpreter has no directory for users.
        FileError: a file cannot be removed.
        TreeError: the package has a file that this tool did not write.
    """
    directory = _directory(interpreter.ask(python, environ), user=user)
    package = os.path.join(directory, PACKAGE)
    present = [path for path in (package, os.path.join(directory, _PATH_FILE))
               if os.path.lexists(path)]  # fmt: skip
    if not present:
        return None
    with _advised(directory):
        _remove(directory)
    return package


def _remove(directory: str) -> None:
    """Remove the .pth file first, so that no interpreter imports a hook without its graft."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, _PATH_FILE))
    package = os.path.join(directory, PACKAGE)
    if os.path.isdir(package):
        foreign = [name for name in os.listdir(package) if not _OURS.fullmatch(name)]
        if foreign:
            name = paths.printable(os.path.join(package, foreign[0]))
            raise TreeError(
                f"{name}: not written by switchml-patch; move it away, then start again"
            )
        shutil.rmtree(package)


@contextlib.contextmanager
def _undone(directory: str) -> Iterator[None]:
    """Remove what a failed installation has written, unless it was there before."""
    path_file, package = (os.path.join(directory, name) for name in (_PATH_FILE, PACKAGE))
    before = {path for path in (path_file, package) if os.path.lexists(path)}
    try:
        yield
    except BaseException:
        if path_file not in before:
            with contextlib.suppress(OSError):
                os.unlink(path_file)
        if package not in before:
            shutil.rmtree(package, ignore_errors=True)
        raise


@contextlib.contextmanager
def _advised(directory: str) -> Iterator[None]:
    """Add advice to the error if the directory cannot be written."""
    try:
        with file_errors():
            yield
    except FileError as error:
        raise FileError(
            f"{error}\n{paths.printable(directory)} cannot be changed: give --user, or a virtual "
            "environment of yours, or start programs with: switchml-patch run --graft LIB.so"
        ) from error


def _directory(found: Interpreter, *, user: bool) -> str:
    if not user:
        return found.purelib
    if found.user is None:
        raise OptionsError(
            f"{found.path}: reads no directory of the user (a virtual environment?); drop --user"
        )
    return found.user
