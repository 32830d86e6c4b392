"""ccache for what CMake compiles in the tests: the same code is compiled once a run.

It is in the environment, so it serves all processes of the run, and the commands that they start.
Where a compile itself is what is tested, CCACHE_DISABLE=1 goes round it.
"""

from __future__ import annotations

import os
import shutil
import tempfile

_LAUNCHERS = ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")


def use() -> str | None:
    """Turns it on for this process and those that it starts.

    Returns:
        The directory to remove after the run. None without a ccache, and where a process of the
        same run or the developer has named one with CCACHE_DIR.
    """
    program = shutil.which("ccache")
    if program is None:
        return None
    made = None
    if "CCACHE_DIR" not in os.environ:
        made = os.environ["CCACHE_DIR"] = tempfile.mkdtemp(prefix="switchml-ccache-")
    # Each build is in a temporary directory of its own: objects are the same where the paths below
    # it are.
    os.environ["CCACHE_BASEDIR"] = os.path.realpath(tempfile.gettempdir())
    os.environ["CCACHE_NOHASHDIR"] = "1"
    # Sources are often written within the second that they are compiled in; contents are compared.
    # The locale, which Python sets for some programs and not for others, is in no object.
    os.environ["CCACHE_SLOPPINESS"] = "include_file_ctime,include_file_mtime,locale"
    os.environ.update(dict.fromkeys(_LAUNCHERS, program))
    return made


def variables(*, launchers: bool = True) -> dict[str, str]:
    """Variables for a program that is started with an environment of its own."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("CCACHE_") or (launchers and name in _LAUNCHERS)
    }
