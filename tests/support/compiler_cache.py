"""ccache for the tests: in one run, equal code is compiled once.

Variables of the environment pass it on to all processes of the run. CCACHE_DISABLE=1 bypasses it
where compiling itself is tested.
"""

from __future__ import annotations

import os
import shutil
import tempfile

_LAUNCHERS = ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")


def use() -> str | None:
    """Enable ccache for this process and its children.

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
    """Return ccache's variables, for a program with its own environment."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("CCACHE_") or (launchers and name in _LAUNCHERS)
    }
