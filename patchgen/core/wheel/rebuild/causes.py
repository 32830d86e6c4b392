"""Causes of a difference: values that were recorded when a file was made, and are others now."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchgen.system import statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.system.statement import Provenance

_CLIENT = "client"


@dataclass(frozen=True)
class Cause:
    """A recorded value that is another one now; None where it is absent."""

    name: str
    left: str | None
    right: str | None


def find(before: Provenance, now: Provenance) -> list[Cause]:
    """Finds the values in which two provenances differ, also of the client library."""
    left, right = dict(_list_values(before)), dict(_list_values(now))
    return [
        Cause(name, left.get(name), right.get(name))
        for name in sorted({**left, **right})
        if left.get(name) != right.get(name)
    ]


def _list_values(made: Provenance) -> Iterator[tuple[str, str]]:
    """Names and texts of all values but for the digests of what was made."""
    own = {name: value for name, value in made.resolved.items() if name != _CLIENT}
    yield from _walk("request", made.request)
    yield from _walk("resolved", own)
    yield from _walk("builder", made.builder)
    for one in made.materials:
        yield f"material {one['name']}", str(next(iter(one["digest"].values())))
    if _CLIENT in made.resolved:
        client = statement.parse(made.resolved[_CLIENT])
        yield from ((f"client library: {name}", text) for name, text in _list_values(client))


def _walk(name: str, value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401  # as in JSON
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _walk(f"{name}.{key}", one)
    else:
        yield name, value if isinstance(value, str) else json.dumps(value)
