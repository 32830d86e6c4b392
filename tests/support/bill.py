"""The schema of CycloneDX, for bills of materials."""

from __future__ import annotations

import json
from typing import Any


def checked(text: str) -> dict[str, Any]:
    """Return a bill of materials, which the schema of its own version must allow."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator  # takes a second, to make grammars

    bill: dict[str, Any] = json.loads(text)
    validator = JsonStrictValidator(SchemaVersion.from_version(bill["specVersion"]))
    problem = validator.validate_str(text)
    assert problem is None, problem
    return bill
