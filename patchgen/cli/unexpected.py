"""An error that no code expects: one line for the user, and a log to report it with."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import sys
import time
import traceback
from importlib import metadata
from typing import TYPE_CHECKING
from urllib.parse import quote

import patchgen
from patchgen import __version__
from patchgen.cli.console import NAME
from patchgen.cli.params import cache
from patchgen.system import files, paths, program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DIRECTORY = "logs"
"""Directory of the logs in the cache."""
_LONGEST = 200  # characters of the error in the line for the user
_SHOWN = 20  # last lines of a program's output
_LIBRARIES = (
    "click", "conda-lock", "cyclonedx-python-lib", "gitpython", "jinja2", "packaging",
    "py-rattler", "rich",
)  # fmt: skip
_TRACKER = re.compile(r"(issue|bug|tracker)[^,]*,\s*(?P<url>\S+)", re.IGNORECASE)

_HIDDEN = "***"
_NAMED = (
    r"[\w-]*(?:token|secret|passw|passphrase|credential|cookie|authorization|"
    r"(?:api|access|private|signing)[_-]?key)[\w-]*"
)
_SECRET_NAME = re.compile(rf"{_NAMED}|.*(KEY|PASS|AUTH|_PWD)", re.IGNORECASE)
_SHORTEST_SECRET, _SHORTEST = 4, 8  # characters of an environment value that is replaced
_OF_SHELLS = {"_", "OLDPWD", "PWD"}
"""Paths that a shell sets, which a traceback has as well."""
_REPLACED = (
    # the user and password of a URL, its query, and the token in the path of a conda channel
    (re.compile(r"\b([a-z][a-z0-9+.-]*://)[^\s/'\"]*@", re.IGNORECASE), rf"\1{_HIDDEN}@"),
    (re.compile(r"\b([a-z][a-z0-9+.-]*://[^\s?'\"]*\?)[^\s'\"]+", re.IGNORECASE), rf"\1{_HIDDEN}"),
    (re.compile(r"(://[^\s'\"]*/t/)[^\s/'\"]+"), rf"\1{_HIDDEN}"),
    # NAME=VALUE, NAME: VALUE and --name VALUE
    (
        re.compile(
            rf"({_NAMED}['\"]?\s*[=:]\s*)(?:(?:bearer|basic|token)\s+)?(?:'[^']*'|\"[^\"]*\"|\S+)",
            re.IGNORECASE,
        ),
        rf"\1{_HIDDEN}",
    ),
    (re.compile(rf"(--{_NAMED}\s+)(?:'[^']*'|\"[^\"]*\"|\S+)", re.IGNORECASE), rf"\1{_HIDDEN}"),
)


def report(error: BaseException) -> str:
    """Write the log of an error, and return the line for the user.

    Where the log cannot be written, the traceback precedes the line.
    """
    try:
        return _report(error)
    except Exception as problem:  # noqa: BLE001  # of the report itself
        where = "".join(traceback.format_tb(error.__traceback__))  # code alone, so no secret
        why = type(problem).__name__
        return f"{where}error: unexpected {type(error).__name__} (no log: {why})\n"


def _report(error: BaseException) -> str:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    lines = traceback.format_exception_only(type(error), error)
    (what, *_) = next(line for line in lines if not line[:1].isspace()).splitlines()
    shown = redact(_make_printable(what), os.environ)[:_LONGEST]
    where = find_tracker()
    try:
        log = _write(redact("\n".join([*_compose(text, where), ""]), os.environ))
    except Exception as problem:  # noqa: BLE001  # the user gets the first error all the same
        why = getattr(problem, "strerror", None) or str(problem)
        text = redact(text, os.environ)
        return f"{text}error: unexpected {shown}; report it {where} (no log: {why})\n"
    return f"error: unexpected {shown}; report it {where}, with the log {paths.describe(log)}\n"


def _write(text: str) -> str:
    """Write a log that only this user can read, and return its path."""
    directory = os.path.join(cache(None), _DIRECTORY)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    stem = time.strftime("%Y%m%d-%H%M%S")
    path = os.path.join(directory, f"{stem}-{os.getpid()}.log")
    content = text.encode("utf-8", "backslashreplace")
    files.write_new(os.fsencode(path), content, 0o600)
    return path


def _compose(text: str, where: str) -> Iterator[str]:
    """Yield the lines of a log; `text` is the traceback."""
    yield f"{NAME} ended with an error that it does not expect. Report it {where},"
    yield "with this file. Values of your environment and of passwords are replaced in it."
    yield ""
    yield f"command:   {shlex.join([NAME, *map(paths.describe, sys.argv[1:])])}"
    yield f"time:      {time.strftime('%Y-%m-%d %H:%M:%S %z')}"
    yield f"version:   {__version__}, in {paths.describe(os.path.dirname(patchgen.__file__))}"
    yield f"python:    {platform.python_version()}, {paths.describe(sys.executable)}"
    yield f"platform:  {platform.platform()}"
    yield f"libraries: {', '.join(_list_libraries())}"
    yield ""
    yield text
    latest = program.find_latest()
    if latest is not None:
        yield f"last program: {_make_printable(latest.line)}"
        yield from (f"  {_make_printable(line)}" for line in latest.last_lines(_SHOWN))


def _make_printable(text: str) -> str:
    """Return any text as one line, whatever the locale."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _list_libraries() -> Iterator[str]:
    """Yield the installed libraries with their versions."""
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield f"{name} {metadata.version(name)}"


def find_tracker() -> str:
    """Return where to report an error: the package's issue tracker, if its metadata names one."""
    try:
        urls = metadata.metadata(NAME).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        urls = []
    found = next(filter(None, map(_TRACKER.match, urls)), None)
    return f"at {found['url']}" if found else f"where you got {NAME} from"


def redact(text: str, environ: Mapping[str, str]) -> str:
    """Replace what may be a secret: values of environment variables, and passwords in URLs."""
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    values: dict[str, str] = {}
    for name, value in environ.items():
        if name in _OF_SHELLS:
            continue
        least = _SHORTEST_SECRET if _SECRET_NAME.match(name) else _SHORTEST
        for part in (value, *value.splitlines()):
            if len(part) >= least:
                quoted = quote(part, safe="", errors="surrogateescape")
                written = {part, repr(part)[1:-1], paths.describe(part), quoted}
                values.update(dict.fromkeys(written, f"${name}"))
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, values[value])
    return text
