"""The files of the plugin: those that are compiled, and those that go into the wheel."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.core.patch import render
from patchgen.extras.install.payload import doctor, launch
from patchgen.extras.install.plugin.wheel import BACKEND, PACKAGE
from patchgen.system import paths
from patchgen.system.native import modules as cmake

if TYPE_CHECKING:
    from patchgen.extras.install.plugin.target import Target
    from patchgen.options import Options

_OWN = (
    "CMakeLists.txt",
    "Capture.hpp",
    "Forwarding.inc",
    "ProcessGroupSwitchML.cpp",
    "ProcessGroupSwitchML.hpp",
    "QuantizeTensors.hpp",
    "Staging.hpp",
    "WorkPool.hpp",
    "module.cpp",
)
# What Python imports beside the extension module.
_MODULES = (
    "_guards",
    "_hierarchical",
    "_job",
    "_layers",
    "_plan",
    "_quantized",
    "_settings",
    "cgx",
)
# What the process group answers itself.
_ANSWERED = (
    "getBackendName",
    "allreduce",
    "allreduce_coalesced",
    "barrier",
    "getSequenceNumberForGroup",
)


@dataclass(frozen=True)
class _Place:
    """Fields of a pin that the templates of the patch read."""

    version: str
    target: str


def library(target: Target) -> str:
    """The name of the extension module's file."""
    return f"_C{target.suffix}"


def sources(options: Options, target: Target) -> dict[str, bytes]:
    """The CMake project: path to content. Its build makes `library`."""
    place = _Place(target.torch.version, "_C")
    made_for = json.dumps({"plugin": target.torch.version, "flags": options.flags})
    shared = {
        name: render.text(f"patch/{name}", pin=place, options=options, record=made_for)
        for name in render.SOURCES
    }
    templates = {name: name for name in _OWN}
    prefix = "" if target.flight_recorder else "No"
    templates["FlightRecords.hpp"] = f"{prefix}FlightRecords.hpp"
    own = {
        name: render.text(
            f"plugin/{template}",
            torch=target.torch,
            base=target.base,
            standard=target.standard,
            definitions=target.definitions,
            suffix=target.suffix,
            include_dirs=[*target.torch.include_dirs, target.torch.python_include],
            methods=[method for method in target.methods if method.name not in _ANSWERED],
        )
        for name, template in templates.items()
    }
    texts = {**shared, **own, cmake.REPRODUCIBLE: cmake.read_module(cmake.REPRODUCIBLE)}
    return {name: paths.encode(text) for name, text in texts.items()}


def modules(target: Target) -> dict[str, bytes]:
    """The Python files of the package: path in the wheel to content."""
    texts = {
        f"{PACKAGE}/__init__.py": render.text(
            "plugin/__init__.py",
            torch=target.torch,
            sequence=target.sequence,
            entry_points=target.entry_points,
        ),
        f"{BACKEND}.py": render.text(f"plugin/{BACKEND}.py"),
        f"{PACKAGE}/_patch.py": render.text("patch/switchml.py", pin=None),
        f"{PACKAGE}/_launch.py": inspect.getsource(launch),
        **{f"{PACKAGE}/doctor/{name}": text for name, text in doctor.read_sources().items()},
        **{f"{PACKAGE}/{name}.py": render.text(f"plugin/{name}.py") for name in _MODULES},
    }
    return {name: text.encode() for name, text in texts.items()}
