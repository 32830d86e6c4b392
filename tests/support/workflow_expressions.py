"""Expressions of GitHub's workflows: `${{ matrix.name }}`, `failure() && env.LOCK != ''`.

What GitHub knows and this does not is refused by its name.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

STATUS = ("success", "failure", "always", "cancelled")
"""Functions that say how the job has gone; a condition without one holds after success only."""

_TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+)*)|(?P<mark>&&|\|\||==|!=|!|[(),]))"
)
_EMBEDDED = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}


class UnknownError(Exception):
    """A part of a workflow that the runner does not know."""


@dataclass(frozen=True)
class Scope:
    """Names of an expression: contexts, such as env and matrix, and functions."""

    contexts: Mapping[str, Any]
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def look_up(self, name: str) -> Any:
        """The value of a dotted name; empty where a known context lacks the property."""
        first, *rest = name.split(".")
        if first not in self.contexts:
            raise UnknownError(f"context {first}")
        value = self.contexts[first]
        for part in rest:
            if first == "github" and part not in value:
                raise UnknownError(f"property {name}")
            value = value.get(part, "") if isinstance(value, dict) else ""
        return value


def substitute(text: str, scope: Scope) -> str:
    """The text with the value of each expression in its place."""
    return _EMBEDDED.sub(lambda found: _text(evaluate(found[1], scope)), text)


def holds(condition: object, scope: Scope) -> bool:
    """True where a step with this `if` runs."""
    text = "success()" if condition is None else _text(condition)
    found = _EMBEDDED.fullmatch(text.strip())
    text = found[1] if found else text
    tokens = _tokens(text)
    if not any(token == ("name", name) for token in tokens for name in STATUS):
        text = f"success() && ({text})"
    return bool(evaluate(text, scope))


def evaluate(text: str, scope: Scope) -> Any:
    """The value of an expression."""
    parser = _Parser(_tokens(text), scope)
    value = parser.either()
    if parser.tokens:
        raise UnknownError(f"expression {text.strip()}")
    return value


def _tokens(text: str) -> list[tuple[str, str]]:
    found, place = [], 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise UnknownError(f"expression {text.strip()}")
        found.append((match.lastgroup, match[match.lastgroup]))
        place = match.end()
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: ""}[value]
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


class _Parser:
    """Evaluates tokens from left to right; `&&` and `||` give one of their operands."""

    def __init__(self, tokens: Sequence[tuple[str, str]], scope: Scope) -> None:
        self.tokens = [*tokens]
        self._scope = scope

    def either(self) -> Any:
        value = self._both()
        while self._take("||"):
            other = self._both()
            value = value or other
        return value

    def _both(self) -> Any:
        value = self._compared()
        while self._take("&&"):
            other = self._compared()
            value = value and other
        return value

    def _compared(self) -> Any:
        value = self._single()
        for mark in ("==", "!="):
            if self._take(mark):
                equal = _text(value).lower() == _text(self._single()).lower()
                return equal if mark == "==" else not equal
        return value

    def _single(self) -> Any:
        if self._take("!"):
            return not self._single()
        if self._take("("):
            value = self.either()
            self._expect(")")
            return value
        kind, token = self.tokens.pop(0) if self.tokens else ("mark", "end")
        if kind == "string":
            return token[1:-1].replace("''", "'")
        if kind == "number":
            return float(token) if "." in token else int(token)
        if kind != "name":
            raise UnknownError(f"{token} in an expression")
        if self._take("("):
            return self._call(token)
        return _WORDS[token] if token in _WORDS else self._scope.look_up(token)

    def _call(self, name: str) -> Any:
        arguments = []
        while not self._take(")"):
            arguments.append(self.either())
            if not self._take(","):
                self._expect(")")
                break
        if name not in self._scope.functions:
            raise UnknownError(f"function {name}")
        return self._scope.functions[name](*arguments)

    def _take(self, mark: str) -> bool:
        if self.tokens and self.tokens[0] == ("mark", mark):
            self.tokens.pop(0)
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise UnknownError(f"expression without {mark}")
