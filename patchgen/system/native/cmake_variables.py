"""Environment of a build with CMake: variables that CMake and its generators read themselves."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from patchgen.errors import OptionsError, ToolError

GENERATOR = "CMAKE_GENERATOR"
MAKEFILES, NINJA = "Unix Makefiles", "Ninja"
_PROGRAMS = {
    MAKEFILES: ("gmake", "make", "smake"),
    NINJA: ("ninja-build", "ninja", "samu"),
}
"""Generators with one configuration, the preferred first, and their programs."""
_PACKAGES = {
    MAKEFILES: "make (Debian: make; conda: make)",
    NINJA: "ninja (Debian: ninja-build; conda: ninja)",
}
_REFUSED = {
    "CMAKE_TOOLCHAIN_FILE": "name compilers with CC and CXX, and flags with CFLAGS, CXXFLAGS and "
    "LDFLAGS, which the provenance records",
}
"""Variables that decide what is built, and what takes their place."""
DROPPED = frozenset({
    # other numbers, configurations and places than those of the build itself
    "CMAKE_BUILD_PARALLEL_LEVEL", "CMAKE_CONFIGURATION_TYPES", "CMAKE_CONFIG_TYPE", "DESTDIR",
    "CMAKE_INSTALL_MODE", "CMAKE_INSTALL_PARALLEL_LEVEL", "CMAKE_INSTALL_PREFIX",
    "CMAKE_GENERATOR_INSTANCE", "CMAKE_GENERATOR_PLATFORM", "CMAKE_GENERATOR_TOOLSET",
    # files beside the product, and colours in messages that are read
    "CLICOLOR_FORCE", "CMAKE_COLOR_DIAGNOSTICS", "CMAKE_CONFIG_DIR",
    "CMAKE_EXPORT_BUILD_DATABASE", "CMAKE_EXPORT_COMPILE_COMMANDS",
    # options of make, also of the make that runs this program
    "GNUMAKEFLAGS", "MAKEFILES", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS",
})  # fmt: skip
"""Variables that a build does not get."""


def refuse(environ: Mapping[str, str]) -> None:
    """Refuse variables that would build something else.

    Raises:
        OptionsError: names the variable.
    """
    given = environ.get(GENERATOR)
    if given and given not in _PROGRAMS:
        raise OptionsError(
            f"{GENERATOR}={given}: this build takes {' or '.join(_PROGRAMS)}; set one, or unset "
            f"{GENERATOR}"
        )
    for name, instead in _REFUSED.items():
        if environ.get(name):
            raise OptionsError(f"{name}={environ[name]}: is not used; unset it, and {instead}")


def choose_generator(environ: Mapping[str, str]) -> str:
    """Return the generator that CMAKE_GENERATOR names, else the first whose program is there.

    Raises:
        OptionsError: CMAKE_GENERATOR names another.
        ToolError: its program is not on PATH.
    """
    refuse(environ)
    given = environ.get(GENERATOR)
    for name in [given] if given else _PROGRAMS:
        if any(shutil.which(program, path=environ.get("PATH")) for program in _PROGRAMS[name]):
            return name
    if given:
        raise ToolError(
            f"{GENERATOR}={given}: no {_PACKAGES[given].partition(' ')[0]} on PATH; install "
            f"{_PACKAGES[given]}, or unset {GENERATOR}"
        )
    raise ToolError(
        "no make on PATH, and perhaps no C++ compiler; install both (Debian: g++ make; conda: "
        "cxx-compiler make)"
    )


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for CMake, which gets its generator as an option."""
    return {
        name: value for name, value in environ.items() if name not in DROPPED and name != GENERATOR
    }
