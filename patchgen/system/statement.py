"""Provenance of files, beside them: an in-toto Statement with SLSA provenance.

Formats: in-toto Attestation Framework, Statement v1 and ResourceDescriptor; SLSA Build Provenance
v1. Whoever publishes the files has to sign it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, TypeVar

from patchgen import __version__
from patchgen.errors import OptionsError, file_errors
from patchgen.system import files, paths, untrusted
from patchgen.system.files import Artifact

SUFFIX = ".provenance.json"
SBOM_SUFFIX = ".cdx.json"
TYPE = "https://in-toto.io/Statement/v1"
BUILDER = "urn:switchml-patch"
_PREDICATE = "https://slsa.dev/provenance/v1"
_FORMAT = "v1"
_DIGEST = re.compile(r"[0-9a-f]+")
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""Exceptions of parsing something that is no provenance."""
T = TypeVar("T")


def describe_builder() -> dict[str, str]:
    """Return the versions of this tool and of the libraries that write archives and SBOMs."""
    found = {"switchml-patch": __version__, "zlib": zlib.ZLIB_RUNTIME_VERSION}
    with contextlib.suppress(metadata.PackageNotFoundError):  # pip's build of the plugin has none
        found["cyclonedx-python-lib"] = metadata.version("cyclonedx-python-lib")
    return found


@dataclass(frozen=True)
class Provenance:
    """Provenance of files that were made together."""

    kind: str
    """How they are made, such as wheel."""
    subjects: tuple[Artifact, ...]
    """The files, the main one first."""
    request: Mapping[str, Any]
    """Choices of the user, as JSON."""
    resolved: Mapping[str, Any]
    """Values that followed from the choices on the machine, as JSON."""
    materials: tuple[Mapping[str, Any], ...]
    """Inputs, as ResourceDescriptors."""
    builder: Mapping[str, str] = field(default_factory=describe_builder)
    """Versions of the tool that made them."""

    def statement(self) -> dict[str, object]:
        """Return the in-toto Statement."""
        return {
            "_type": TYPE,
            "subject": [
                {**describe_file(one.name, one.sha256), "annotations": {"size": one.size}}
                for one in self.subjects
            ],
            "predicateType": _PREDICATE,
            "predicate": {
                "buildDefinition": {
                    "buildType": f"{BUILDER}:{self.kind}:{_FORMAT}",
                    "externalParameters": dict(self.request),
                    "internalParameters": dict(self.resolved),
                    "resolvedDependencies": [dict(one) for one in self.materials],
                },
                "runDetails": {"builder": {"id": BUILDER, "version": dict(self.builder)}},
            },
        }

    def content(self) -> bytes:
        """Return the bytes of its file; equal values give equal bytes."""
        return dump(self.statement())

    def find_digest(self, name: str) -> str | None:
        """Return the SHA-256 or commit of an input; None if there is no such input."""
        for one in self.materials:
            if one.get("name") == name:
                return str(next(iter(one["digest"].values())))
        return None


def dump(statement: Mapping[str, object]) -> bytes:
    """Return the bytes of a statement; equal values give equal bytes."""
    return (json.dumps(statement, indent=2, sort_keys=True) + "\n").encode()


def describe_file(name: str, sha256: str) -> dict[str, object]:
    """Return a ResourceDescriptor of a file."""
    return {"name": name, "digest": {"sha256": sha256}}


def describe_commit(name: str, address: str, commit: str) -> dict[str, object]:
    """Return a ResourceDescriptor of a commit."""
    return {"name": name, "uri": f"git+{address}@{commit}", "digest": {"gitCommit": commit}}


def write(path: str, provenance: Provenance) -> str:
    """Write the provenance of a file beside it, and return its path.

    Raises:
        FileError: it cannot be written.
    """
    with file_errors():
        files.replace(os.fsencode(path + SUFFIX), provenance.content())
    return path + SUFFIX


def read(path: str) -> Provenance:
    """Read a provenance.

    Raises:
        OptionsError: the file is no provenance of this tool.
        FileError: it cannot be read.
    """
    content = untrusted.read_file(path)
    try:
        return parse(untrusted.parse_json(content))
    except UNREADABLE as error:
        raise OptionsError(
            f"{paths.describe(path)}: no provenance of switchml-patch; give the file that was "
            "written beside it"
        ) from error


def parse(statement: Mapping[str, Any]) -> Provenance:
    """Parse the statement of a provenance. Raises one of UNREADABLE for any other statement."""
    definition = statement["predicate"]["buildDefinition"]
    builder, kind, form = definition["buildType"].rsplit(":", 2)
    if (statement["_type"], builder, form) != (TYPE, BUILDER, _FORMAT):
        raise ValueError(definition["buildType"])
    subjects = tuple(map(_artifact, statement["subject"]))
    if not subjects:
        raise ValueError("no subject")
    return Provenance(
        kind=kind,
        subjects=subjects,
        request=_typed(definition["externalParameters"], dict),
        resolved=_typed(definition["internalParameters"], dict),
        materials=tuple(_material(one) for one in _typed(definition["resolvedDependencies"], list)),
        builder=_typed(statement["predicate"]["runDetails"]["builder"]["version"], dict),
    )


def _artifact(value: Mapping[str, Any]) -> Artifact:
    size, digest = value["annotations"]["size"], value["digest"]["sha256"]
    return Artifact(str(value["name"]), int(size), _digest(digest))


def _material(value: object) -> Mapping[str, Any]:
    described = _typed(value, dict)
    _digest(next(iter(_typed(described["digest"], dict).values()), None))
    _typed(described["name"], str)
    return described


def _digest(value: object) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError(value)
    return value


def _typed(value: object, form: type[T]) -> T:
    if not isinstance(value, form):
        raise TypeError(value)
    return value
