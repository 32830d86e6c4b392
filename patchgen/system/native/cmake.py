"""Builds small CMake projects."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from patchgen.errors import ToolError, file_errors
from patchgen.system import files
from patchgen.system.native import cmake_variables
from patchgen.system.process import run
from patchgen.system.program import with_temporary

PACKAGES, REPRODUCIBLE = "packages.cmake", "reproducible.cmake"
"""CMake modules beside this one, for generated projects."""

_LOGGER = logging.getLogger(__name__)
_LIMIT = 3600.0  # seconds
_NO_COMPILER = "No CMAKE_CXX_COMPILER could be found"


def read_module(name: str) -> str:
    """Return the text of a CMake module beside this one."""
    return resources.files("patchgen.system.native").joinpath(name).read_text(encoding="utf-8")


def write_project(project: Mapping[str, bytes], directory: str) -> None:
    """Write the files of a project, contents by path, to a directory.

    Raises:
        FileError: a file cannot be written.
    """
    with file_errors():
        for path, content in project.items():
            target = os.path.join(directory, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            files.write(target, content)


@contextlib.contextmanager
def build_project(
    project: Mapping[str, bytes], what: str, environ: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Build a project from contents by path; its build directory lasts as long as the block.

    Its CMakeLists.txt may call `require` of packages.cmake. `environ` has the compiler and its
    flags.

    Raises:
        ToolError: a program or library is missing, with the packages that have it, or the build
        failed.
        FileError: the temporary directory cannot be written.
    """
    with files.scratch("cmake") as directory:
        write_project(project, directory)
        build = os.path.join(directory, "build")
        build_source(directory, build, [], what, environ, jobs=2)
        yield build


def build_source(  # noqa: PLR0913  # all are independent
    source: str,
    build: str,
    options: Sequence[str],
    what: str,
    environ: Mapping[str, str] | None = None,
    *,
    jobs: int | None = None,
) -> None:
    """Build a project in a directory; otherwise as `build_project`.

    Temporary files of killed compilers go with the build directory. By default all cores compile.

    Raises:
        OptionsError: a variable would build something else.
        ToolError: a program or library is missing, with the packages that have it, or the build
        failed.
    """
    _LOGGER.info("configuring %s", what)
    temporary = os.path.join(build, "tmp")
    given = with_temporary(temporary, environ)
    if shutil.which("cmake", path=given.get("PATH")) is None:
        raise ToolError("cmake: not on PATH; install it (Debian: cmake; conda: cmake)")
    generator = cmake_variables.choose_generator(given)
    with file_errors():
        os.makedirs(temporary, exist_ok=True)
    own = cmake_variables.without_settings(given)
    command = ["cmake", "-G", generator, "-S", source, "-B", build, *options]
    try:
        run(command, limit=_LIMIT, env=own, supervised=True)
    except ToolError as error:
        if _NO_COMPILER in str(error):
            raise ToolError(
                "no C++ compiler on PATH; install one (Debian: g++; conda: cxx-compiler)"
            ) from error
        try:
            with open(os.path.join(build, "missing"), encoding="utf-8") as file:
                missing = file.read()
        except FileNotFoundError:
            raise error from None
        raise ToolError(f"{what} needs {missing}, which is not installed") from error
    _LOGGER.info("compiling %s, which can take a minute", what)
    command = ["cmake", "--build", build, "--parallel", str(jobs or os.cpu_count() or 1)]
    run(command, limit=_LIMIT, env=own, supervised=True)
