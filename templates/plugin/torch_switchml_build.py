"""Build backend of this archive (PEP 517). The package beside it compiles the plugin."""

import os
import sys

if sys.version_info < (3, 9):  # noqa: UP036  # pip may run any Python
    raise SystemExit("error: this needs Python 3.9, and this is {}.{}".format(*sys.version_info))

from patchgen.errors import PatchgenError
from patchgen.extras.install.plugin import backend

# pip may have installed cmake beside this interpreter, in a directory that is not on PATH.
_SEARCH = (os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable))


def get_requires_for_build_wheel(config_settings=None):  # noqa: ARG001  # as PEP 517 names it
    """Return the requirements of a build: cmake, if it is not on PATH."""
    return backend.requirements(os.pathsep.join(_SEARCH))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):  # noqa: ARG001
    """Write the wheel for the installed torch. Prints an error as one message."""
    os.environ["PATH"] = os.pathsep.join(_SEARCH)
    root = os.path.dirname(os.path.abspath(__file__))
    try:
        return backend.build_wheel(wheel_directory, root, os.environ, sys.executable)
    except PatchgenError as error:
        raise SystemExit(f"error: {error}") from None
