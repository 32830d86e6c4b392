"""Attestation of a rebuild: an in-toto Statement that the bytes were reproduced.

It is not signed: whoever rebuilds does that.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.errors import file_errors
from patchgen.system import files, statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.core.wheel.rebuild.target import Target
    from patchgen.system.statement import Provenance

SUFFIX = ".reproduced.json"
PREDICATE = f"{statement.BUILDER}:reproduced:v1"


def describe(target: Target, rebuilt: Provenance, paths: Mapping[str, str]) -> dict[str, object]:
    """Describes files that were made again with the same bytes.

    Args:
        target: the files.
        rebuilt: provenance of the ones that were made again.
        paths: of these, by their names.

    Raises:
        FileError: one cannot be read.
    """
    with file_errors():
        record = files.sha256(target.record)
    made = _list_files(paths)
    return {
        "_type": statement.TYPE,
        "subject": made,  # which is what they were compared with, whatever is at its place by now
        "predicateType": PREDICATE,
        "predicate": {
            "result": "reproduced",
            "rebuilt": made,
            "provenance": statement.describe_file(os.path.basename(target.record), record),
            "builder": {"id": statement.BUILDER, "version": dict(rebuilt.builder)},
            "toolchain": rebuilt.resolved["toolchain"],
        },
    }


def _list_files(paths: Mapping[str, str]) -> list[dict[str, object]]:
    with file_errors():
        return [statement.describe_file(name, files.sha256(path)) for name, path in paths.items()]
