"""Renders the templates with options and a pin: the texts that the patch adds."""

from __future__ import annotations

import functools
import hashlib
import os
import posixpath
import pprint
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from patchgen import __version__
from patchgen.core.patch import fields, record
from patchgen.core.patch.pins import Pin
from patchgen.errors import PatchgenError
from patchgen.options import BACKENDS, FLAGS, Options
from patchgen.system import paths
from patchgen.templates import DIRECTORY

if TYPE_CHECKING:
    from jinja2 import Environment

CALLERS = ("SwitchMLAllreduce.hpp", "SwitchMLCodec.hpp", "SwitchMLLoader.cpp")
"""The files beside the process group that open the delegate library and call it."""
INTERFACE = "SwitchMLInterface.hpp"
"""The header of the delegate library, which lies beside these."""
PROJECT = "third_party/switchml_delegate"
"""Directory of the delegate library in a PyTorch, a graft and the plugin."""
SOURCE_FOLDERS = ("include", "src")
"""Folders of PROJECT with C++. The loader in torch includes files of the first."""
LIBRARY = "libswitchml_delegate.so"
"""The delegate library, which lies beside what opens it."""

FLAGS_FILE = "switchml.cmake"
"""The only file that depends on the options."""
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
    environment.filters.update(cmake=quote_cmake, cxx=quote_cxx)
    environment.globals.update(FLAGS=FLAGS, BACKENDS=BACKENDS)
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
    return posixpath.join(pin.source_dir, FLAGS_FILE)


def new_paths(pin: Pin) -> tuple[str, ...]:
    """Return the paths of the files that the patch adds, relative to the tree."""
    return (*_find_sources(pin.source_dir), _PYTHON, flags_path(pin))


@functools.lru_cache
def _find_sources(source_dir: str) -> Mapping[str, str]:
    """Return which file of `templates/` is at each path of `compiled_files`."""
    top = os.path.join(DIRECTORY, "delegate")
    texts = {
        **{name: f"patch/{name}" for name in CALLERS},
        INTERFACE: f"delegate/include/{INTERFACE}",
    }
    texts = {posixpath.join(source_dir, name): path for name, path in texts.items()}
    for name in ("CMakeLists.txt", "client.cmake"):
        texts[f"{PROJECT}/{name}"] = f"delegate/{name}"
    for folder in SOURCE_FOLDERS:
        for place, _, names in os.walk(os.path.join(top, folder)):
            for name in names:
                if name.endswith((".cpp", ".hpp")) and name != INTERFACE:
                    path = os.path.relpath(os.path.join(place, name), top)
                    texts[f"{PROJECT}/{path}"] = f"delegate/{path}"
    return MappingProxyType(dict(sorted(texts.items())))


def compiled_files(source_dir: str) -> dict[str, bytes]:
    """Return the sources of the library's callers, in `source_dir`, and of the library, by path."""
    return {path: _render(name) for path, name in _find_sources(source_dir).items()}


def fixed_files(pin: Pin) -> dict[str, bytes]:
    """Return the new files that are the same for all options: contents by path."""
    return {**compiled_files(pin.source_dir), _PYTHON: paths.encode(report_module())}


def report_module() -> str:
    """Return the Python module that reads the report, with the defaults of all its keys."""
    defaults = pprint.pformat(fields.empty_report(), sort_dicts=False, width=96)
    return text("patch/switchml.py").replace("_DEFAULTS = {}\n", f"_DEFAULTS = {defaults}\n")


def flags_file(options: Options, pin: Pin) -> bytes:
    """Return the content of the file at `flags_path`."""
    return _render(
        f"patch/{FLAGS_FILE}",
        pin=pin,
        options=options,
        record=record.dump(options, pin),
        project=posixpath.relpath(f"/{PROJECT}", f"/{pin.source_dir}"),
    )


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
