"""Puts the import hook, and a graft for it, where an interpreter finds them."""

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
from patchgen.system import files, interpreter, paths
from patchgen.system.interpreter import Interpreter
from patchgen.system.process import LIMIT, run

PACKAGE = torch_probe.HOOK

_PATH_FILE = f"{PACKAGE}.pth"
# One line, since site takes lines; nothing is said where the package was taken away by hand.
_PATH_LINE = (
    f'import sys; exec("try:\\n import {PACKAGE}\\n {PACKAGE}.activate(own=True)\\n'
    'except ImportError:\\n pass")\n'
)
_OURS = re.compile(rf"__init__\.py|report\.py|{graft_hook.OWN}|__pycache__|\..*\.switchml-tmp")


def place(directory: str) -> str:
    """Writes the package with the hook and the report module, without a graft.

    Args:
        directory: that it goes into; must exist.

    Returns:
        The package's own directory.

    Raises:
        FileError: it cannot be written.
    """
    package = os.path.join(directory, PACKAGE)
    with file_errors():
        os.makedirs(package, exist_ok=True)
        with open(graft_hook.__file__, "rb") as file:
            files.replace(os.fsencode(os.path.join(package, "__init__.py")), file.read())
        report = render.text("patch/switchml.py").encode()
        files.replace(os.fsencode(os.path.join(package, "report.py")), report)
    return package


def launching(library: str, directory: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of programs that load a graft, where none is installed.

    Args:
        library: the graft.
        directory: for the hook; it must stay as long as the programs run.
        environ: that of the programs otherwise.

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
    """Makes an interpreter load a graft whenever it imports torch. Takes the place of another one.

    Args:
        python: the interpreter.
        library: the graft, which is copied.
        environ: of the interpreter.
        user: for this user only.

    Returns:
        The directory of the package.

    Raises:
        OptionsError: the interpreter has no directory for users.
        FileError: the directory cannot be written; nothing is left there.
        ToolError: the interpreter does not read the directory when it starts.
    """
    directory = _directory(interpreter.ask(python, environ), user=user)
    package = os.path.join(directory, PACKAGE)
    with _undone(directory), _advised(directory):
        os.makedirs(directory, exist_ok=True)
        place(directory)
        with open(library, "rb") as file:
            files.replace(os.fsencode(os.path.join(package, graft_hook.OWN)), file.read())
        with contextlib.suppress(ToolError):  # else it is compiled in memory, each time
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
    """Takes the hook and the graft away.

    Returns:
        The directory of the package; None where there was none.

    Raises:
        OptionsError: the interpreter has no directory for users.
        FileError: it cannot be removed.
        TreeError: there is a package of this name that is not ours.
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
    """The hook first, so that no interpreter finds it without its graft."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, _PATH_FILE))
    package = os.path.join(directory, PACKAGE)
    if os.path.isdir(package):
        foreign = [name for name in os.listdir(package) if not _OURS.fullmatch(name)]
        if foreign:
            name = paths.printable(os.path.join(package, foreign[0]))
            raise TreeError(f"{name}: not a file of ours; take it away, then start again")
        shutil.rmtree(package)


@contextlib.contextmanager
def _undone(directory: str) -> Iterator[None]:
    """Leaves nothing behind where an installation fails that replaces none."""
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
    """A directory that cannot be written, with what to do then."""
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
