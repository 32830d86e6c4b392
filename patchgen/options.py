"""What the user asks for: nine variables, checked, as one frozen value."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.errors import OptionsError
from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Variable:
    """One variable: `name` in the environment and in make, `flag` on the command line.

    `default` is relative to the dev root for a directory, and "0" for a boolean.
    """

    name: str
    default: str
    help: str
    boolean: bool = False
    key: str = ""

    @property
    def field(self) -> str:
        """Field of `Options` that holds it."""
        return self.key or self.name.lower()

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return "--" + self.field.replace("_", "-")


VARIABLES: tuple[Variable, ...] = (
    Variable("DPDK", "0", "the library has the DPDK backend (needs gRPC)", boolean=True),
    Variable("MLX5", "0", "with DPDK: ConnectX-4 or ConnectX-5 cards", boolean=True),
    Variable("MLX4", "0", "with DPDK: ConnectX-3 cards", boolean=True),
    Variable("RDMA", "0", "the library has the RDMA backend (needs gRPC)", boolean=True),
    Variable("DEBUG", "0", "no optimization, debug symbols, detailed messages", boolean=True),
    Variable("BUILDDIR", "build", "directory that the patch, a graft or a wheel is written to"),
    Variable("SWITCHML_HOME", "build", "root of the SwitchML client library: include/ and lib/"),
    Variable("GRPC_HOME", "third_party/grpc/build", "root of gRPC: lib/pkgconfig/"),
    Variable("DPDK_HOME", "third_party/dpdk/build", "root of DPDK: include/ and lib/"),
)
DEV_ROOT = Variable(
    "SWITCHML_DEV_ROOT", ".", "the directory that the default paths are under", key="dev_root"
)
HOMES = ("switchml_home", "grpc_home", "dpdk_home")

_BOOLEANS = {
    "1": True, "true": True, "yes": True, "on": True,
    "0": False, "false": False, "no": False, "off": False,
}  # fmt: skip

# Tried with the real programs (tests/integration/test_cmake_paths.py and test_switchml_cmake.py):
# the linker's option list splits at a comma, a run path at a colon, a CMake list at a semicolon,
# but not within a bracket; CMake turns a backslash into a slash and does not quote a double quote
# everywhere, ninja and make do not quote a bar, and ld.so, CMake and make expand a dollar sign.
REFUSED_IN_HOMES = ',:;\\|$"[]'


@dataclass(frozen=True)
class Options:
    """The nine variables. Paths are absolute, as text of `patchgen.paths`.

    A home that the flags have no use for is empty, so that it makes no difference.

    `builddir` says where the patch goes and is no part of what is in it.
    """

    dpdk: bool
    mlx5: bool
    mlx4: bool
    rdma: bool
    debug: bool
    switchml_home: str
    grpc_home: str
    dpdk_home: str
    builddir: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Refuses what cannot be built.

        Raises:
            OptionsError: with what to change.
        """
        if self.dpdk and self.rdma:
            raise OptionsError(
                "DPDK=1 and RDMA=1: a library has one of the two backends; "
                "drop --dpdk (DPDK=1) or --rdma (RDMA=1)"
            )
        if self.mlx5 and self.mlx4:
            raise OptionsError(
                "MLX5=1 and MLX4=1: choose one; "
                "--mlx5 for ConnectX-4 and ConnectX-5, --mlx4 for ConnectX-3"
            )
        if (self.mlx5 or self.mlx4) and not self.dpdk:
            card = "MLX5" if self.mlx5 else "MLX4"
            raise OptionsError(
                f"{card}=1 has a meaning with DPDK only; "
                f"add --dpdk (DPDK=1) or drop --{card.lower()} ({card}=1)"
            )
        for variable in VARIABLES:
            home = variable.field in HOMES
            value = "" if variable.boolean else getattr(self, variable.field)
            if value or (home and variable.field not in self._unused):
                _check_path(variable.name, value, home=home)
        for name in self._unused:
            object.__setattr__(self, name, "")

    @property
    def _unused(self) -> tuple[str, ...]:
        """The homes that have no part in what is built."""
        return (() if self.dpdk else ("dpdk_home",)) + (() if self.grpc else ("grpc_home",))

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of the booleans that are set."""
        return tuple(v.name for v in VARIABLES if v.boolean and getattr(self, v.field))

    @property
    def grpc(self) -> bool:
        """Whether the library needs gRPC."""
        return self.dpdk or self.rdma


def resolve(
    given: Mapping[str, bool | str | None], environ: Mapping[str, str], cwd: str | None
) -> Options:
    """The options from the command line, else the environment, else the defaults.

    Args:
        given: by field name, and `dev_root`; None where the command line says nothing.
        environ: an empty value counts as none.
        cwd: None when the current directory no longer exists.

    Raises:
        OptionsError: a value is refused; the message says what to change.
    """

    def text(variable: Variable) -> tuple[str | None, str]:
        value = given.get(variable.field)
        if value is not None:
            return str(value), variable.flag
        return environ.get(variable.name) or None, variable.name

    root, origin = text(DEV_ROOT)
    values: dict[str, bool | str] = {}
    for variable in VARIABLES:
        value, source = text(variable)
        if variable.boolean:
            values[variable.field] = _boolean(value or variable.default, source)
        elif value is not None:
            values[variable.field] = _absolute(value, source, cwd)
        else:
            base = _absolute("." if root is None else root, origin, cwd)
            values[variable.field] = os.path.normpath(os.path.join(base, variable.default))
    return Options(**values)  # type: ignore[arg-type]  # each field by its kind, above


def _boolean(text: str, source: str) -> bool:
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise OptionsError(
            f"{source}={paths.printable(text)}: not a boolean; use 1 or 0, yes or no, on or off"
        ) from None


def _absolute(text: str, source: str, cwd: str | None) -> str:
    if not text:
        raise OptionsError(f"{source} is empty; name a directory or drop it")
    path = os.path.expanduser(paths.from_native(text))
    if not os.path.isabs(path):
        if cwd is None:
            raise OptionsError(
                f"{source}={paths.printable(path)} is relative and the current directory no longer "
                "exists; give an absolute path"
            )
        path = os.path.join(paths.from_native(cwd), path)
    _check_path(source, path, home=False)
    return os.path.normpath(path)


def _check_path(source: str, path: str, *, home: bool) -> None:
    if any(ord(c) < ord(" ") or ord(c) == 0x7F for c in path):  # noqa: PLR2004  # DEL
        raise OptionsError(
            f"{source}={paths.printable(path)}: a path with a newline or another control character "
            "cannot be written to a patch; use another directory or a symbolic link"
        )
    refused = [c for c in REFUSED_IN_HOMES if c in path]
    if home and refused:
        raise OptionsError(
            f"{source}={paths.printable(path)}: CMake and the linker cannot take "
            f"{' '.join(refused)} in this path; use another directory or a symbolic link"
        )
    if not os.path.isabs(path):
        raise OptionsError(f"{source}={paths.printable(path)}: not an absolute path")
