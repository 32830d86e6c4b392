"""Provenance of an installed client library, beside its archive."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from patchgen.core.library import archive, homes
from patchgen.errors import PatchgenError, file_errors
from patchgen.options import HOMES, VARIABLES, Options
from patchgen.system import files, outputs, paths, statement
from patchgen.system.files import Artifact
from patchgen.system.native import cache, tools
from patchgen.system.statement import Provenance

_LOGGER = logging.getLogger(__name__)

CLIENT, SIMULATOR = "client", "simulator"
"""Kinds of client libraries: SwitchML's own, and the simulator."""
NAME = homes.ARCHIVE + statement.SUFFIX
SBOM = homes.ARCHIVE + statement.SBOM_SUFFIX
ARCHIVE = os.path.basename(homes.ARCHIVE)


def path(home: str) -> str:
    """Return the path of the provenance in a SWITCHML_HOME, as `os` takes it."""
    return paths.native(os.path.join(home, NAME))


def install(home: str, contents: Mapping[str, bytes]) -> None:
    """Write the files of a library, contents by path in the home.

    The provenance and the SBOM of an earlier library are removed first.

    Raises:
        FileError: a file cannot be written.
    """
    native = paths.native(home)
    with outputs.shared(native), outputs.directory(native), file_errors():
        for name in (NAME, SBOM):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(paths.native(os.path.join(home, name)))
        for name, content in contents.items():
            target = paths.encode(os.path.join(home, name))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            files.replace(target, content)


def describe(  # noqa: PLR0913  # all are parts of the provenance
    kind: str,
    contents: Mapping[str, bytes],
    environ: Mapping[str, str],
    *,
    request: Mapping[str, Any],
    resolved: Mapping[str, Any],
    materials: Sequence[Mapping[str, Any]],
) -> Provenance:
    """Describe the files of a library that was compiled just now.

    switchml.cfg is not among them, since users edit it. `environ` has the compiler and its flags.

    Raises:
        ToolError: the compiler does not report its version.
    """
    names = sorted(contents, key=lambda name: (name != homes.ARCHIVE, name))
    return Provenance(
        kind=kind,
        subjects=tuple(
            Artifact(name, len(contents[name]), hashlib.sha256(contents[name]).hexdigest())
            for name in names
        ),
        request={**request, "variables": tools.read_variables(environ)},
        resolved={**resolved, "toolchain": tools.describe_tools(environ)},
        materials=tuple(materials),
    )


def describe_home(home: str) -> dict[str, Any]:
    """Return a library's provenance, for that of its users. Log an unreadable one."""
    if not os.path.lexists(path(home)):
        return {}
    try:
        return {"client": statement.read(path(home)).statement()}
    except PatchgenError as error:
        _LOGGER.info("warning: %s", error)
        return {}


def describe_options(options: Options) -> dict[str, Any]:
    """Describe the flags, and the homes that these flags use."""
    return {
        "flags": list(options.flags),
        "homes": {
            variable.name: paths.printable(getattr(options, variable.field))
            for variable in VARIABLES
            if variable.field in HOMES and getattr(options, variable.field)
        },
    }


def list_materials(home: str) -> list[dict[str, object]]:
    """Return the inputs for linking with a library: archive, headers and module.

    Raises:
        OSError: an input cannot be read.
    """
    simulator = archive.read(home).simulator
    described = statement.describe_file(ARCHIVE, files.sha256(archive.path(home)))
    found = [
        {**described, "annotations": {"simulator": simulator}},
        statement.describe_file(
            "include/switchml", cache.digest(paths.native(os.path.join(home, "include/switchml")))
        ),
    ]
    module = paths.native(os.path.join(home, homes.MODULE))
    if os.path.exists(module):
        found.append(statement.describe_file(homes.MODULE, files.sha256(module)))
    return found
