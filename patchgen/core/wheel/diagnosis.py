"""Diagnosis of a failed build: the first real error of its log, and its usual meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen.core import meanings

# The first match counts, since later errors are consequences of it.
_ERRORS = (
    re.compile(r"(^|: )(fatal )?error(:| [A-Z]\d+:| #\d+:) "),
    re.compile(r"^CMake Error"),
    re.compile(r"undefined reference to|: cannot find -l|multiple definition of|ld: .*error"),
    re.compile(r"No space left on device|Disk quota exceeded"),
    re.compile(r"internal compiler error|virtual memory exhausted|out of memory|^Killed"),
    re.compile(r"^nvcc (fatal|error)"),
    re.compile(r"^([\w.]*(Error|Exception)|SystemExit)(:|$)"),
    re.compile(r"^(error|fatal): "),
)
_LAST = re.compile(r"^FAILED: |ninja: (error|build stopped)")
# Messages of git, ssh, curl, wget, pip, CMake and Python without a network.
_NO_NETWORK = re.compile(
    r"(could(?:n't| not)|unable to) resolve host|temporary failure in name resolution"
    r"|name or service not known|network is unreachable|failed to establish a new connection"
    r"|failed to connect to|could(?:n't| not) connect to server",
    re.IGNORECASE,
)
_NEAR = 40  # lines
_FOLLOWING = 4  # lines of a message that CMake wraps
_LONGEST = 300  # characters


@dataclass(frozen=True)
class Diagnosis:
    """First error, its line in the log (from 1), and its usual meaning."""

    error: str
    line: int
    meaning: str | None


def find_network_call(lines: Sequence[str], error: Diagnosis) -> str:
    """Return a line near the error about an unreachable network, or empty."""
    for number, line in enumerate(lines, 1):
        if abs(error.line - number) <= _NEAR and _NO_NETWORK.search(line):
            return line.strip()[:_LONGEST]
    return ""


def diagnose(lines: Iterable[str]) -> Diagnosis | None:
    """Find the first real error in the lines of a log; None if no line looks like an error."""
    fallback: Diagnosis | None = None
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        text = line.rstrip()
        if any(pattern.search(text) for pattern in _ERRORS):
            if text.startswith("CMake Error"):
                following = [rest.strip() for (_, rest), _ in zip(numbered, range(_FOLLOWING))]
                text = " ".join([text, *filter(None, following)])
            return Diagnosis(text[:_LONGEST], number, meanings.find("build", text))
        if fallback is None and _LAST.search(text):
            fallback = Diagnosis(text[:_LONGEST], number, None)
    return fallback
