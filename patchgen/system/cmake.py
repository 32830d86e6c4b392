"""A small CMake project, from its files to the artifact that it builds."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from patchgen.errors import file_errors
from patchgen.system import files
from patchgen.system.process import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LOGGER = logging.getLogger(__name__)
_LIMIT = 3600.0  # seconds


def place(project: Mapping[str, bytes], directory: str) -> None:
    """Writes the files of a project.

    Args:
        project: path in the project to content.
        directory: where it goes.

    Raises:
        FileError: it cannot be written.
    """
    with file_errors():
        for path, content in project.items():
            target = os.path.join(directory, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(content)


@contextlib.contextmanager
def built(project: Mapping[str, bytes], what: str) -> Iterator[str]:
    """The build directory of a project, for as long as the context lasts.

    Args:
        project: path in the project to content; one of them is CMakeLists.txt.
        what: is compiled, in words.

    Raises:
        ToolError: cmake or the compiler is missing or failed.
        FileError: the temporary directory cannot be written.
    """
    with files.scratch("cmake") as directory:
        place(project, directory)
        build = os.path.join(directory, "build")
        _LOGGER.info("configuring")
        run(["cmake", "-S", directory, "-B", build], limit=_LIMIT, supervised=True)
        _LOGGER.info("compiling %s", what)
        command = ["cmake", "--build", build, "--parallel", "2"]
        run(command, limit=_LIMIT, supervised=True)
        yield build
