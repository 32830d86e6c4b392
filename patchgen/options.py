"""The flags of the client library, and the options of a run as one frozen value."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from patchgen.errors import OptionsError
from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class Flag(NamedTuple):
    """Flag of the client library."""

    name: str
    """Name as a variable; in lower case it is the option, and a part of the wheel's version."""
    help: str
    backend: bool = False
    """Whether it is a backend; a library has one of them beside dummy."""
    needs: str = ""
    """Flag of the backend that it belongs to."""
    cards: str = ""
    """Network cards that it supports."""
    homes: tuple[str, ...] = ()
    """Homes that a library with this flag needs."""
    libraries: Mapping[str, str] = {}
    """Debian packages by the libraries that a program links with."""

    @property
    def field(self) -> str:
        """Name of the option, without dashes, and part of the version."""
        return self.name.lower()

    @property
    def directory(self) -> str:
        """Directory of the backend in the library's source."""
        return f"backends/{self.field}"

    @property
    def mark(self) -> str:
        """Symbol of the backend in an archive."""
        name = f"{self.name.capitalize()}Backend"
        return f"8switchml{len(name)}{name}"


FLAGS: tuple[Flag, ...] = (
    Flag(
        "DPDK", "the library has the DPDK backend (needs gRPC)", backend=True,
        homes=("dpdk_home", "grpc_home"),
    ),
    Flag(
        "MLX5", "with DPDK: ConnectX-4 or ConnectX-5 cards", needs="DPDK",
        cards="ConnectX-4 and ConnectX-5",
        libraries={"ibverbs": "libibverbs-dev", "mlx5": "libibverbs-dev", "mnl": "libmnl-dev"},
    ),
    Flag(
        "MLX4", "with DPDK: ConnectX-3 cards", needs="DPDK", cards="ConnectX-3",
        libraries={"ibverbs": "libibverbs-dev", "mlx4": "libibverbs-dev", "mnl": "libmnl-dev"},
    ),
    Flag(
        "RDMA", "the library has the RDMA backend (needs gRPC)", backend=True,
        homes=("grpc_home",),
        libraries={"ibverbs": "libibverbs-dev", "hugetlbfs": "libhugetlbfs-dev"},
    ),
    Flag("DEBUG", "no optimization, debug symbols, detailed messages"),
)  # fmt: skip
"""The flags, from which every other list of flags is made."""
BACKENDS = tuple(flag for flag in FLAGS if flag.backend)
DUMMY = Flag("DUMMY", "the library's backend without a network", backend=True)


class Variable(NamedTuple):
    """An option: `name` in the environment and in make, `flag` on the command line.

    A `default` is "0" for a boolean, and otherwise a path relative to the dev root.
    """

    name: str
    default: str
    help: str
    boolean: bool = False
    key: str = ""

    @property
    def field(self) -> str:
        """Key of its value in `resolve`; a field of `Options` for paths."""
        return self.key or self.name.lower()

    @property
    def flag(self) -> str:
        """Option of the command line."""
        return "--" + self.field.replace("_", "-")


VARIABLES: tuple[Variable, ...] = (
    *(Variable(flag.name, "0", flag.help, boolean=True) for flag in FLAGS),
    Variable("BUILDDIR", "build", "directory that the patch, a graft or a wheel is written to"),
    Variable("SWITCHML_HOME", "build", "root of the SwitchML client library: include/ and lib/"),
    Variable("GRPC_HOME", "third_party/grpc/build", "root of gRPC: lib/pkgconfig/"),
    Variable("DPDK_HOME", "third_party/dpdk/build", "root of DPDK: include/ and lib/"),
)
DEV_ROOT = Variable(
    "SWITCHML_DEV_ROOT", ".", "the directory that the default paths are under", key="dev_root"
)
HOMES = ("switchml_home", "grpc_home", "dpdk_home")

BOOLEANS = {
    "1": True, "yes": True, "on": True, "true": True,
    "0": False, "no": False, "off": False, "false": False,
}  # fmt: skip
"""Values of flags as variables, in small or capital letters."""

# Tried with the real programs (test_cmake_paths.py and test_switchml_cmake.py in
# tests/integration/apply): the linker's option list splits at a comma, a run path at a colon, a
# CMake list at a semicolon, but not within a bracket; CMake turns a backslash into a slash and does
# not quote a double quote everywhere, ninja and make do not quote a bar, and ld.so, CMake and make
# expand a dollar sign.
REFUSED_IN_HOMES = ',:;\\|$"[]'


def check_flags(names: Collection[str]) -> tuple[str, ...]:
    """Sort names of flags as in FLAGS.

    Raises:
        OptionsError: no client library can have these flags.
    """
    chosen = [flag for flag in FLAGS if flag.name in names]
    unknown = sorted({*names} - {flag.name for flag in FLAGS})
    if unknown:
        raise OptionsError(f"{unknown[0]}: no such flag")
    backends = [flag for flag in chosen if flag.backend]
    if len(backends) > 1:
        drop = " or ".join(f"--{flag.field} ({flag.name}=1)" for flag in backends)
        raise OptionsError(f"{_list_set(backends)}: a library has one backend; drop {drop}")
    cards = [flag for flag in chosen if flag.cards]
    if len(cards) > 1:
        meanings = ", ".join(f"--{flag.field} for {flag.cards}" for flag in cards)
        raise OptionsError(f"{_list_set(cards)}: choose one; {meanings}")
    for flag in chosen:
        if flag.needs and flag.needs not in names:
            raise OptionsError(
                f"{flag.name}=1 has a meaning with {flag.needs} only; add "
                f"--{flag.needs.lower()} ({flag.needs}=1) or drop --{flag.field} ({flag.name}=1)"
            )
    return tuple(flag.name for flag in chosen)


def _list_set(flags: Sequence[Flag]) -> str:
    return " and ".join(f"{flag.name}=1" for flag in flags)


@dataclass(frozen=True)
class Options:
    """Options of a patch. Paths are absolute, as text of `patchgen.system.paths`.

    A home that the flags do not need is empty, so that it makes no difference. `builddir` is where
    the patch is written, and does not change its content.
    """

    flags: tuple[str, ...]
    """Names of the flags that are set, in the order of FLAGS."""
    switchml_home: str
    grpc_home: str
    dpdk_home: str
    builddir: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Refuse values that cannot be built.

        Raises:
            OptionsError: says what to change.
        """
        object.__setattr__(self, "flags", check_flags(self.flags))
        for variable in VARIABLES:
            home = variable.field in HOMES
            value = "" if variable.boolean else getattr(self, variable.field)
            if value or (home and variable.field in self.homes):
                _check_path(variable.name, value, home=home)
        for name in HOMES:
            if name not in self.homes:
                object.__setattr__(self, name, "")

    @property
    def homes(self) -> frozenset[str]:
        """Fields of the homes that the flags need."""
        needed = {home for flag in FLAGS if flag.name in self.flags for home in flag.homes}
        return frozenset({"switchml_home", *needed})

    @property
    def libraries(self) -> tuple[str, ...]:
        """Libraries that the flags make a program link with."""
        return tuple(name for flag in FLAGS if flag.name in self.flags for name in flag.libraries)

    @property
    def grpc(self) -> bool:
        """Whether the library needs gRPC."""
        return "grpc_home" in self.homes


def resolve(
    given: Mapping[str, bool | str | None], environ: Mapping[str, str], cwd: str | None
) -> Options:
    """Return the options from the command line, else the environment, else the defaults.

    Args:
        given: values by field and `dev_root`; None where the command line has none.
        environ: variables; an empty one counts as unset.
        cwd: current directory; None if it no longer exists.

    Raises:
        OptionsError: a value is refused; the message says what to change.
    """

    def text(variable: Variable) -> tuple[str | None, str]:
        value = given.get(variable.field)
        if value is not None:
            return str(value), variable.flag
        return environ.get(variable.name) or None, variable.name

    root, origin = text(DEV_ROOT)
    flags: list[str] = []
    values: dict[str, str] = {}
    for variable in VARIABLES:
        value, source = text(variable)
        if variable.boolean:
            flags += [variable.name] if _boolean(value or variable.default, source) else []
        elif value is not None:
            values[variable.field] = _absolute(value, source, cwd)
        else:
            base = _absolute("." if root is None else root, origin, cwd)
            values[variable.field] = os.path.normpath(os.path.join(base, variable.default))
    return Options(tuple(flags), **values)


def _boolean(text: str, source: str) -> bool:
    try:
        return BOOLEANS[text.lower()]
    except KeyError:
        raise OptionsError(
            f"{source}={paths.printable(text)}: not a boolean; use 1 or 0, yes or no, on or off"
        ) from None


def _absolute(text: str, source: str, cwd: str | None) -> str:
    if not text:
        raise OptionsError(f"{source} is empty; name a directory or drop it")
    path = os.path.expanduser(paths.from_native(text))
    if path.startswith("~"):
        raise OptionsError(
            f"{source}={paths.printable(path)}: there is no such home; write it out, or ./~ for a "
            "directory of that name"
        )
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
