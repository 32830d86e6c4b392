"""Virtual methods of a class of torch, read from its header and forwarded to a wrapped group.

The class differs between releases. A method that is not forwarded would fail only when called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.errors import ToolError, file_errors

_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)  # comments, strings
_VIRTUAL = re.compile(r"\bvirtual\s+(?!~)([^;{}()]+?)\b(\w+)\s*\(")
_NAMED = re.compile(r"(?P<type>.*[\s&*>])(?P<name>\w+)")
_TYPES = {"bool", "char", "double", "float", "int", "long", "short", "signed", "unsigned"}
_CLOSING = {"(": ")", "<": ">", "{": "}"}


OWN = {"barrier", "getBackendName", "getSequenceNumberForGroup"}
"""Methods that the plugin has instead, in ProcessGroupSwitchML.hpp."""
_BEFORE = {
    "allreduce": "if (auto work = tryAllreduce(OpType::ALLREDUCE, a1, a2)) return work;",
    "allreduce_coalesced": (
        "if (auto work = tryAllreduce(OpType::ALLREDUCE_COALESCED, a1, a2)) return work;"
    ),
    "shutdown": "endDelegation();",
    "setGroupUid": "Group::setGroupUid(a1);",
    "setTimeout": "setDefaultTimeout(a1);",
    "abort": "abortDelegation();",
    "reconfigure": "endDelegation();",
    **dict.fromkeys(
        ("_reduce_scatter_base", "reduce_scatter_single"),
        "if (auto work = tryReduceScatter({a1}, {a2}, a3)) return work;",
    ),
    **dict.fromkeys(
        ("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"),
        "if (auto work = tryReduceScatter(a1, a2, a3)) return work;",
    ),
}
"""Statements of some methods before they call the wrapped group."""
_RECONFIGURE = """
    auto work = {call};
    work->wait();
    rank_ = wrapped_->getRank();
    size_ = wrapped_->getSize();
    agree("/reconfigure/" + std::to_string(a1.uuid),
          a1.timeout.value_or(std::chrono::milliseconds(0)));
    return work;"""
_OPTIONS = {"split": "a3", "merge": "a2"}
"""Argument with the options of the new group, by method."""


@dataclass(frozen=True)
class Method:
    """Virtual method: result, name and types of the arguments, as C++."""

    result: str
    name: str
    arguments: tuple[str, ...]
    const: bool


def hand_on(method: Method) -> str:
    """Return a method in C++ that calls the same method of the wrapped group."""
    named = [(argument, f"a{number}") for number, argument in enumerate(method.arguments, 1)]
    declared = ", ".join(f"{argument} {name}" for argument, name in named)
    given = (f"std::move({name})" if one.endswith("&&") else name for one, name in named)
    call = f"wrapped_->{method.name}({', '.join(given)})"
    if method.name == "reconfigure":
        last = _RECONFIGURE.replace("{call}", call).strip()
    elif method.name in _OPTIONS and "Store" in "".join(method.arguments):
        last = f"return wrapChild(a1, {call}, {_OPTIONS[method.name]}->timeout);"
    elif "<Work>" in method.result:
        last = f"return forward([&] {{ return {call}; }});"
    else:
        last = f"return {call};"
    body = "\n    ".join(filter(None, (_BEFORE.get(method.name), last)))
    const = " const" if method.const else ""
    return f"  {method.result} {method.name}({declared}){const} override {{\n    {body}\n  }}\n"


def read(header: str, name: str) -> list[Method]:
    """Return the virtual methods of a class in order, without its destructor.

    Raises:
        ToolError: the header has no such class, or no method that could be read.
        FileError: the header cannot be read.
    """
    with file_errors(), open(header, encoding="utf-8") as file:
        text = _NO_CODE.sub(" ", file.read())
    found = re.search(rf"\bclass\s+(?:\w+\s+)?{name}\b[^;{{]*{{", text)
    if found is None:
        raise ToolError(f"{header}: defines no class {name}; is this the header of a torch?")
    body = _within(text, found.end() - 1)
    methods = [_method(body, match) for match in _VIRTUAL.finditer(body) if _is_own(body, match)]
    if not methods:
        raise ToolError(f"{header}: class {name} has no virtual method that could be read")
    return methods


def _within(text: str, opening: int) -> str:
    """Return the text between a bracket and its closing bracket."""
    bracket, depth = text[opening], 0
    for place in range(opening, len(text)):
        if text[place] == bracket:
            depth += 1
        elif text[place] == _CLOSING[bracket]:
            depth -= 1
            if depth == 0:
                return text[opening + 1 : place]
    return text[opening + 1 :]


def _is_own(body: str, match: re.Match[str]) -> bool:
    """Return whether a method is of the class itself, not of a nested class."""
    return body.count("{", 0, match.start()) == body.count("}", 0, match.start())


def _method(body: str, match: re.Match[str]) -> Method:
    inside = _within(body, match.end() - 1)
    after = body[match.end() + len(inside) + 1 :]
    return Method(
        result=" ".join(match[1].split()),
        name=match[2],
        arguments=tuple(_type(argument) for argument in _split(inside)),
        const=re.match(r"\s*const\b", after) is not None,
    )


def _split(arguments: str) -> Iterator[str]:
    """Yield the arguments, split at commas outside of brackets."""
    depth, current = 0, ""
    for character in arguments:
        depth += (character in "(<{") - (character in ")>}")
        if character == "," and depth == 0:
            yield current
            current = ""
        else:
            current += character
    if current.strip():
        yield current


def _type(argument: str) -> str:
    """Return an argument without its name and its default."""
    declared = " ".join(argument.partition("=")[0].split())
    named = _NAMED.fullmatch(declared)
    if named is None or named["name"] in _TYPES:
        return declared
    return named["type"].strip()
