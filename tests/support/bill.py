"""Check of a bill of materials against the schema of CycloneDX."""

from __future__ import annotations

import json
from typing import Any


def checked(text: str) -> dict[str, Any]:
    """Parse a bill of materials, and check it against the schema of the version that it names."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator  # a second, for its grammars

    bill: dict[str, Any] = json.loads(text)
    validator = JsonStrictValidator(SchemaVersion.from_version(bill["specVersion"]))
    problem = validator.validate_str(text)
    assert problem is None, problem
    return bill
