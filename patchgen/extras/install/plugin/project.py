"""Files of the plugin: the CMake project, and the Python files of the wheel."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen import __version__
from patchgen.core.patch import render
from patchgen.extras.doctor.payload import switchml_doctor
from patchgen.extras.install.payload import launch
from patchgen.extras.install.plugin import virtuals
from patchgen.extras.install.plugin.target import PluginTarget
from patchgen.extras.install.plugin.wheel import BACKEND, PACKAGE
from patchgen.options import Options
from patchgen.system import paths
from patchgen.system.native import cmake
from patchgen.templates import DIRECTORY

_SOURCES = "src"
"""Directory of the module's C++, in the templates and in the project."""
_RECORDS, _NO_RECORDS = "FlightRecords.cpp", "NoFlightRecords.cpp"
"""Two definitions of the same class, of which a module has one."""
_GROUP = """\
/// Made by switchml-patch: the class that torch's process groups are made of.
#pragma once

#include <torch/csrc/distributed/c10d/BASE.hpp>

namespace switchml_delegate {

using Group = c10d::BASE;
constexpr char kGroup[] = "BASE";

}  // namespace switchml_delegate
"""
_BUILT = '''\
"""Made by switchml-patch {version}: the torch that it is for, and what its groups have."""

TORCH = {torch!a}
HAS_SEQUENCE = {sequence}
'''


@dataclass(frozen=True)
class _PinFields:
    version: str
    target: str
    header: str = ""


def library(target: PluginTarget) -> str:
    """Return the file name of the extension module."""
    return f"_C{target.suffix}"


def render_flags(options: Options) -> str:
    """Render switchml.cmake; torch.cmake sets the homes."""
    return render.text(
        f"patch/{render.FLAGS_FILE}",
        pin=_PinFields("that is installed", "_C"),
        options=Options(options.flags, "/", "/", "/"),
        record="plugin",
        project=render.PROJECT,
    )


def sources(options: Options, target: PluginTarget) -> dict[str, bytes]:
    """Return the files of the CMake project, by path. It builds `library`, and the delegate's."""
    own = {f"{_SOURCES}/{name}": text for name, text in _texts(_SOURCES).items()}
    without_recorder = own.pop(f"{_SOURCES}/{_NO_RECORDS}")
    if not target.flight_recorder:
        own[f"{_SOURCES}/{_RECORDS}"] = without_recorder
    texts = {
        "CMakeLists.txt": render.text("plugin/CMakeLists.txt"),
        render.FLAGS_FILE: render_flags(options),
        **own,
        "Group.hpp": _GROUP.replace("BASE", target.base),
        "Methods.inc": "\n".join(
            virtuals.hand_on(method) for method in target.methods if method.name not in virtuals.OWN
        ),
        "torch.cmake": "".join(_set_variables(options, target)),
        cmake.REPRODUCIBLE: cmake.read_module(cmake.REPRODUCIBLE),
    }
    made = {name: paths.encode(text) for name, text in texts.items()}
    return {**render.compiled_files(""), **made}


def _texts(directory: str) -> dict[str, str]:
    """Return the files of a directory of `templates/plugin`, by name."""
    names = sorted(os.listdir(os.path.join(DIRECTORY, "plugin", directory)))
    names = [name for name in names if name.endswith((".cpp", ".hpp", ".py"))]
    return {name: render.text(f"plugin/{directory}/{name}") for name in names}


def _set_variables(options: Options, target: PluginTarget) -> Iterator[str]:
    """Yield the lines of CMake that describe a torch and the homes of the flags."""
    torch = target.torch
    abi = f"_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}"
    for name, values in {
        "TORCH_STANDARD": [str(target.standard)],
        "TORCH_SUFFIX": [target.suffix],
        "TORCH_DEFINITIONS": [*target.definitions, abi],
        "TORCH_HEADERS": [*torch.include_dirs, torch.python_include],
        "TORCH_LIBRARIES": [torch.lib_dir],
    }.items():
        yield f"set({name} {' '.join(map(render.quote_cmake, values))})\n"
    for field in sorted(options.homes):
        value = render.quote_cmake(getattr(options, field))
        yield f'set({field.upper()} {value} CACHE PATH "")\n'


def modules(target: PluginTarget) -> dict[str, bytes]:
    """Return the Python files of the package, by path in the wheel."""
    torch = target.torch
    built = _BUILT.format(
        version=__version__,
        torch=(torch.version, torch.commit, torch.cuda),
        sequence=target.sequence,
    )
    texts = {
        f"{BACKEND}.py": render.text(f"plugin/{BACKEND}.py"),
        f"{PACKAGE}/_built.py": built,
        f"{PACKAGE}/_patch.py": render.report_module(),
        f"{PACKAGE}_launch.py": inspect.getsource(launch),
        **switchml_doctor.read_sources(),
        **{f"{PACKAGE}/{name}": text for name, text in _texts(PACKAGE).items()},
    }
    return {name: text.encode() for name, text in texts.items()}
