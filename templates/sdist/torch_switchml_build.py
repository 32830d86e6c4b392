"""Build backend of this archive (PEP 517). The package beside it compiles the plugin."""

import contextlib
import os
import sys

_ROOT = os.path.dirname(os.path.abspath(__file__))


def get_requires_for_build_wheel(config_settings=None):  # noqa: ARG001  # as PEP 517 names it
    """Lists what pip installs for the build: cmake, where the system has none."""
    with _package() as backend:
        return backend.requirements()


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):  # noqa: ARG001
    """Writes the metadata of the wheel for the installed torch."""
    with _package() as backend:
        return backend.write_metadata(metadata_directory, _ROOT, os.environ, sys.executable)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):  # noqa: ARG001
    """Writes the wheel for the installed torch."""
    with _package() as backend:
        return backend.build_wheel(wheel_directory, _ROOT, os.environ, sys.executable)


def build_sdist(sdist_directory, config_settings=None):  # noqa: ARG001
    """Refuses to make this archive again."""
    raise SystemExit("error: this archive is made by: switchml-patch plugin sdist")


@contextlib.contextmanager
def _package():
    """The modules that build; an error of theirs ends the process with its message alone."""
    with open(os.path.join(_ROOT, "PKG-INFO"), encoding="utf-8") as file:
        (line,) = (line for line in file if line.startswith("Requires-Python: >="))
    oldest = line.rpartition("=")[2].strip()
    running = sys.version_info[:2]
    if running < tuple(int(part) for part in oldest.split(".")):
        raise SystemExit(
            f"error: this needs Python {oldest}, and this is {running[0]}.{running[1]}"
        )
    # What pip has installed beside this interpreter, such as cmake, need not be on PATH.
    search = [os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)]
    os.environ["PATH"] = os.pathsep.join(search)
    from patchgen.errors import PatchgenError  # noqa: PLC0415  # this Python may be too old for it
    from patchgen.extras.install.plugin import backend  # noqa: PLC0415

    try:
        yield backend
    except PatchgenError as error:
        raise SystemExit(f"error: {error}") from None
