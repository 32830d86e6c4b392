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
"""Kinds of a client library: SwitchML's own, and the simulator."""
NAME = homes.ARCHIVE + statement.SUFFIX
ARCHIVE = os.path.basename(homes.ARCHIVE)


def path(home: str) -> str:
    """The provenance of a SWITCHML_HOME, as `os` takes it."""
    return paths.native(os.path.join(home, NAME))


def install(home: str, contents: Mapping[str, bytes]) -> None:
    """Writes the files of a library; the provenance of an earlier one is gone before.

    Args:
        home: a SWITCHML_HOME.
        contents: path in the home to content.

    Raises:
        FileError: it cannot be written.
    """
    with outputs.directory(paths.native(home)), file_errors():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path(home))
        for name, content in contents.items():
            target = paths.encode(os.path.join(home, name))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            files.replace(target, content)


def describe(  # noqa: PLR0913  # each is a part of it
    kind: str,
    contents: Mapping[str, bytes],
    environ: Mapping[str, str],
    *,
    request: Mapping[str, Any],
    resolved: Mapping[str, Any],
    materials: Sequence[Mapping[str, Any]],
) -> Provenance:
    """Describes the files of a library that was compiled just now.

    switchml.cfg is none of them, since users edit it.

    Args:
        kind: one of the kinds above.
        contents: path in the home to content.
        environ: has the compiler and its flags.
        request: choices of the user.
        resolved: values that followed from them.
        materials: what it was compiled from.

    Raises:
        ToolError: the compiler does not tell its version.
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
    """Parts of the provenance of what is linked with a library: the library's own, if it has one.

    A file beside the library that is none is told, and left out.
    """
    if not os.path.lexists(path(home)):
        return {}
    try:
        return {"client": statement.read(path(home)).statement()}
    except PatchgenError as error:
        _LOGGER.info("warning: %s", error)
        return {}


def describe_options(options: Options) -> dict[str, Any]:
    """Describes the flags, and the homes that they have a use for."""
    return {
        "flags": list(options.flags),
        "homes": {
            variable.name: paths.printable(getattr(options, variable.field))
            for variable in VARIABLES
            if variable.field in HOMES and getattr(options, variable.field)
        },
    }


def list_materials(home: str) -> list[dict[str, object]]:
    """Inputs of what is linked with a library: its archive, headers and module.

    Raises:
        OSError: one cannot be read.
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
