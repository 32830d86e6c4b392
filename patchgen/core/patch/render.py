"""Renders the templates with options and a pin: the texts that the patch adds."""

from __future__ import annotations

import functools
import hashlib
import os
import posixpath
from typing import TYPE_CHECKING

from patchgen import __version__
from patchgen.core.patch import record
from patchgen.core.patch.pins import Pin
from patchgen.errors import PatchgenError
from patchgen.options import BACKENDS, DUMMY, FLAGS, Options
from patchgen.system import paths
from patchgen.templates import DIRECTORY

if TYPE_CHECKING:
    from jinja2 import Environment

SOURCES = (
    "SwitchMLAgreement.hpp",
    "SwitchMLAllreduce.cpp",
    "SwitchMLAllreduce.hpp",
    "SwitchMLCodec.hpp",
    "SwitchMLConfig.hpp",
    "SwitchMLDelegate.cpp",
    "SwitchMLDelegate.hpp",
    "SwitchMLFailover.hpp",
    "SwitchMLGroups.hpp",
    "SwitchMLHost.hpp",
    "SwitchMLJoining.cpp",
    "SwitchMLJoining.hpp",
    "SwitchMLLibrary.cpp",
    "SwitchMLLibrary.hpp",
    "SwitchMLMetrics.hpp",
    "SwitchMLOrder.hpp",
    "SwitchMLProbe.hpp",
    "SwitchMLPulse.hpp",
    "SwitchMLQuantize.hpp",
    "SwitchMLReduction.cpp",
    "SwitchMLReduction.hpp",
    "SwitchMLReport.cpp",
    "SwitchMLReport.hpp",
    "SwitchMLRing.hpp",
    "SwitchMLSaturation.hpp",
    "SwitchMLSettings.hpp",
    "SwitchMLThreads.hpp",
    "SwitchMLVerdict.hpp",
    "switchml.cmake",
)
"""Files that the patch adds beside ProcessGroupGloo.cpp. The plugin compiles them as well."""
DELEGATE = tuple(name for name in SOURCES if name.endswith(".cpp"))
"""Sources of the delegate. PyTorch's build compiles each by itself."""
UNIT = "unit.cmake"
"""CMake file with which grafts and plugins compile these sources as one."""

_FLAGS = "switchml.cmake"
_PYTHON = "torch/distributed/switchml.py"
_CMAKE = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "$": "\\$", "@": "\\@", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
)
_CXX = {ord("\\"): "\\\\", ord('"'): '\\"', ord("?"): "\\?"}  # \? keeps trigraphs away


def quote_cmake(value: str) -> str:
    """Return a quoted argument of CMake."""
    return f'"{value.translate(_CMAKE)}"'


def quote_cxx(value: str) -> str:
    """Return a string literal of C++ in ASCII, for any execution character set."""
    return '"' + "".join(map(_cxx_byte, paths.encode(value))) + '"'


def _cxx_byte(byte: int) -> str:
    if byte in _CXX:
        return _CXX[byte]
    # Three octal digits: unlike \x, an octal escape cannot swallow the digit that follows it.
    return chr(byte) if ord(" ") <= byte <= ord("~") else f"\\{byte:03o}"


def quote_python(value: object) -> str:
    """Return a literal of Python in ASCII."""
    return ascii(value)


def _match_backends() -> str:
    """Return a pattern for the backends' symbols; class names have 10 to 19 letters."""
    names = [flag.name.capitalize() for flag in (*BACKENDS, DUMMY)]
    digits = "".join(sorted({str(len(f"{name}Backend"))[1:] for name in names}))
    return f"8switchml1[{digits}]({'|'.join(names)})Backend"


@functools.lru_cache(maxsize=1)
def _environment() -> Environment:
    # Most files need no Jinja, which is slow to import.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    # Delimiters that occur neither in C++ nor in CMake.
    environment = Environment(
        variable_start_string="@{",
        variable_end_string="}@",
        block_start_string="@%",
        block_end_string="%@",
        comment_start_string="@#",
        comment_end_string="#@",
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701  # no HTML; the filters quote
        auto_reload=False,
        optimized=False,  # each template is rendered once
        loader=FileSystemLoader(DIRECTORY),
    )
    environment.filters.update(cmake=quote_cmake, cxx=quote_cxx, py=quote_python)
    environment.globals.update(
        FLAGS=FLAGS, BACKENDS=BACKENDS, MARKS=_match_backends(), DELEGATE=DELEGATE
    )
    return environment


def text(name: str, **context: object) -> str:
    """Return a file of `templates/` in whole lines, rendered from NAME.j2 where that exists.

    Raises:
        PatchgenError: the last line has no line end.
    """
    plain = os.path.join(DIRECTORY, name)
    if os.path.exists(plain):
        with open(plain, encoding="utf-8") as file:
            content = file.read()
    else:
        template = _environment().get_template(f"{name}.j2")
        content = template.render(version=__version__, **context)
    if not content.endswith("\n"):
        raise PatchgenError(f"{name}: the last line has no line end")
    return content


def _render(name: str, **context: object) -> bytes:
    return paths.encode(text(name, **context))


def flags_path(pin: Pin) -> str:
    """Return the path of the only new file that depends on the options."""
    return posixpath.join(pin.source_dir, _FLAGS)


def new_paths(pin: Pin) -> tuple[str, ...]:
    """Return the paths of the files that the patch adds, relative to the tree."""
    return (*(posixpath.join(pin.source_dir, name) for name in SOURCES), _PYTHON)


def fixed_files(pin: Pin) -> dict[str, bytes]:
    """Return the new files that are the same for all options: contents by path."""
    return {
        path: _render(f"patch/{posixpath.basename(path)}", pin=pin)
        for path in new_paths(pin)
        if path != flags_path(pin)
    }


def flags_file(options: Options, pin: Pin) -> bytes:
    """Return the content of the file at `flags_path`."""
    return _render(f"patch/{_FLAGS}", pin=pin, options=options, record=record.dump(options, pin))


def new_files(options: Options, pin: Pin) -> dict[str, bytes]:
    """Return all files that the patch adds: contents by path in the tree."""
    return {**fixed_files(pin), flags_path(pin): flags_file(options, pin)}


def hooks(pin: Pin) -> dict[str, bytes]:
    """Return the lines that each hook inserts, by its name."""
    return {
        hook.name: _render(f"patch/hooks/{hook.name}.inc", pin=pin)
        for file in pin.files
        for hook in file.hooks
    }


def hooks_digest(texts: dict[str, bytes]) -> str:
    """Return the SHA-256 of the hooks' names and texts."""
    digest = hashlib.sha256()
    for name in sorted(texts):
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(texts[name]), texts[name]))
    return digest.hexdigest()


def pinned_hooks(pin: Pin) -> dict[str, bytes]:
    """Return the hooks, and verify that the pin was made with them.

    Raises:
        PatchgenError: a template of the hooks has changed since.
    """
    texts = hooks(pin)
    if hooks_digest(texts) != pin.hooks_sha256:
        raise PatchgenError(
            f"pin {pin.name}: the hooks differ from those it was made with; "
            "make it again with: switchml-patch pins refresh, or your own with pins make"
        )
    return texts
