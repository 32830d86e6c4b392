"""Options that several commands have, and the values that they stand for."""

from __future__ import annotations

import functools
import math
import os
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, TypeVar

import click

from patchgen.cli import path_types
from patchgen.cli.console import completing, option, say
from patchgen.core.library import homes
from patchgen.core.patch import pins
from patchgen.errors import OptionsError
from patchgen.options import DEV_ROOT, HOMES, VARIABLES, Options, Variable, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.core.patch.pins import Pin
    from patchgen.core.source import Places
    from patchgen.core.torch import Torch

Command = Callable[..., Any]

LOCK = "conda-lock.yml"
ENVIRONMENT = "environment.yml"
LIBRARY = "Client library"
"""Heading of the options about the client library."""
_ABOUT_LIBRARY = [variable for variable in VARIABLES if variable.name != "BUILDDIR"]

T = TypeVar("T")


class FiniteRange(click.FloatRange):
    """A range of floats without nan, which no bound refuses, and without inf."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # as in click
        """Refuses what is no finite number of the range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


SECONDS = FiniteRange(min=1, max=86_400.0)
"""Limit in seconds, of a day at most."""

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print data for scripts on stdout."
)
complete_pin = completing(lambda: [pin.name for pin in pins.shipped()])
pytorch_option = option(
    "--pytorch",
    group="Source",
    metavar="PIN",
    shell_complete=complete_pin,
    help=f"Commit prefix, version or pin file; switchml-patch pins lists them. "
    f"[default: {pins.DEFAULT}, or what the tree is]",
)
work_option = option(
    "--work",
    group="Places",
    type=path_types.Named(),
    metavar="DIR",
    help="Directory for source, environment and objects. Its path is in the wheel only where the "
    "system gives no namespaces. [default: /var/tmp/switchml-patch/VERSION]",
)
python_option = click.option(
    "--python", "interpreter", type=path_types.Named(), metavar="PYTHON",
    help="Build with this interpreter and the compiler on PATH, without conda.",
)  # fmt: skip
torch_option = click.option(
    "--torch", "torch_python", type=click.Path(), default="python3", show_default=True,
    metavar="PYTHON", help="Interpreter that has the torch.",
)  # fmt: skip
lock_option = option(
    "--lock", "lock_file", group="Places", type=path_types.Named(), default=LOCK, metavar="FILE",
    help=f"Lock of the conda environment, as env lock writes it. [default: {LOCK}]",
)  # fmt: skip
accept_option = click.option(
    "--accept", "accepted", type=click.Choice(["crash-at-exit", "no-blas"]), multiple=True,
    help="Build although `check` refuses: without BLAS and LAPACK, or for a Python under which "
    "this PyTorch crashes at exit. May be repeated.",
)  # fmt: skip
cache_option = option(
    "--cache", group="Places", type=path_types.Named(), metavar="DIR",
    help="Directory for downloads and reusable builds. [default: switchml-patch under ~/.cache]",
)  # fmt: skip
config_option = click.option(
    "--config", "configs", type=click.Path(exists=True, dir_okay=False), multiple=True,
    metavar="FILE",
    help="Your switchml.cfg, one for each rank that verifies. [default: two ranks, with the "
    "simulator or the dummy backend]",
)  # fmt: skip
without_option = option(
    "--without",
    group="Source",
    multiple=True,
    callback=lambda _context, _option, given: tuple(os.path.normpath(path) for path in given),
    metavar="PATH",
    help="Submodule to leave out, with all that is in it, now and in later runs. May be repeated.",
)
_mirror_option = option(
    "--mirror",
    "mirrors",
    group="Source",
    multiple=True,
    metavar="URL|PATH",
    help="Place to look at before the network: a directory of clones named OWNER+NAME, OWNER/NAME "
    "or NAME, a clone, or a base URL. May be repeated.",
)
_reference_option = option(
    "--reference",
    "references",
    group="Source",
    multiple=True,
    type=click.Path(),
    metavar="PATH",
    help="Clone to copy objects from; one of PyTorch serves its submodules as well.",
)


def into(kind: Callable[..., T]) -> Callable[[Callable[[T], None]], Command]:
    """Decorator that hands a command all its options as one value of a class."""

    def decorate(command: Callable[[T], None]) -> Command:
        @functools.wraps(command)
        def wrapped(**given: Any) -> None:
            command(kind(**given))

        return wrapped

    return decorate


def gather(
    name: str, kind: Callable[[Mapping[str, Any]], object], keys: Sequence[str]
) -> Callable[[Command], Command]:
    """Decorator that hands a command some of its options as one value.

    Args:
        name: of the command's parameter that gets the value.
        kind: makes the value from the options by name.
        keys: names of the options.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(*args: Any, **given: Any) -> Any:
            values = {key: given.pop(key) for key in keys}
            return command(*args, **{name: kind(values)}, **given)

        return wrapped

    return decorate


class Variables(NamedTuple):
    """Variables of the patch as the command line has them."""

    given: Mapping[str, bool | str | None]
    """Values by name in `Options`, and of the dev root; None where the command line has none."""

    @property
    def spelled(self) -> list[str]:
        """Options that the command line has, as the user wrote them."""
        return [
            f"--{name.replace('_', '-')}" for name, value in self.given.items() if value is not None
        ]

    def read(self) -> Options:
        """Resolves them with the environment and the defaults.

        Raises:
            OptionsError: one is refused.
        """
        try:
            cwd = os.getcwd()
        except FileNotFoundError:
            cwd = None
        return resolve(self.given, os.environ, cwd)

    def read_library(self) -> Options | None:
        """Resolves them where they name a client library; else None.

        Raises:
            OptionsError: one is refused, or is of a client library that none of them names.
        """
        named = [variable for variable in VARIABLES if variable.field == "switchml_home"]
        if any(self.given[one.field] or os.environ.get(one.name) for one in (*named, DEV_ROOT)):
            return self.read()
        for variable in _ABOUT_LIBRARY:
            if self.given.get(variable.field) is not None:
                raise OptionsError(
                    f"{variable.flag} is of a client library; name that with --switchml-home"
                )
        return None

    def find_library(self, options: Options, cache: str) -> Options:
        """Options for a program that links the client library: the simulator, if none is named.

        Raises:
            OptionsError: a library is named, and is not complete.
            ToolError: the simulator could not be built.
            FileError: the cache cannot be written.
        """
        from patchgen.extras.lab import simulator  # few commands need it

        simulates = bool(homes.find_missing(options)) and self.read_library() is None
        if simulates:
            say("no client library is named with --switchml-home: the switch is simulated")
        return simulator.find_library(None if simulates else options, cache, os.environ)

    def warn(self, options: Options) -> list[str]:
        """Tells what is missing in the homes, and returns these lines."""
        missing = [str(one) for one in homes.find_missing(options)]
        for line in missing:
            say(f"warning: {line}")
        return missing


def variable_options(command: Command) -> Command:
    """Adds the variables and the dev root, handed on as `variables`."""
    return these_variables(command, VARIABLES)


def library_options(command: Command) -> Command:
    """Adds those about the client library, for a command that writes nothing to BUILDDIR."""
    return these_variables(command, _ABOUT_LIBRARY)


def flag_options(command: Command) -> Command:
    """Adds the flags, BUILDDIR and the dev root, handed on as `variables`."""
    return these_variables(command, [v for v in VARIABLES if v.boolean or v.name == "BUILDDIR"])


def simulating_options(command: Command) -> Command:
    """Adds the variables and the dev root, for a command that simulates without a home."""
    default = "the simulator"
    own = [v._replace(default=default) if v.name == "SWITCHML_HOME" else v for v in _ABOUT_LIBRARY]
    return these_variables(command, own)


def these_variables(command: Command, variables: Sequence[Variable]) -> Command:
    """Adds some of the variables and the dev root, handed on as `variables`."""
    added = (DEV_ROOT, *reversed(variables))
    command = gather("variables", Variables, [variable.field for variable in added])(command)
    for variable in added:
        command = _option(variable)(command)
    return command


def _option(variable: Variable) -> Callable[[Command], Command]:
    text = variable.help[0].upper() + variable.help[1:]
    text = f"{text}. [env: {variable.name}; default: {variable.default}]"
    if variable.boolean:
        names = f"{variable.flag}/--no-{variable.field}"
        return option(names, group=LIBRARY, default=None, help=text)
    group = LIBRARY if variable.field in HOMES else "Places"
    return option(variable.flag, group=group, type=click.Path(), metavar="DIR", help=text)


def place_options(command: Command) -> Command:
    """Adds --mirror and --reference, places before the network, handed on as `places`."""

    def pack(given: Mapping[str, Any]) -> Sources:
        return Sources(tuple(given["mirrors"]), tuple(given["references"]))

    command = gather("places", pack, ("mirrors", "references"))(command)
    return _mirror_option(_reference_option(command))


def known_pins(pytorch: str | None) -> tuple[tuple[Pin, ...], Pin | None]:
    """Lists the pins, first a file that the user named, and the one that the user named.

    Raises:
        OptionsError: there is no such pin.
    """
    shipped = pins.shipped()
    if pytorch is None:
        return shipped, None
    wanted = pins.find(pytorch, shipped)
    return (shipped if wanted in shipped else (wanted, *shipped)), wanted


def chosen_pin(pytorch: str | None) -> Pin:
    """The pin that the user named, else the default.

    Raises:
        OptionsError: there is no such pin.
    """
    known, wanted = known_pins(pytorch)
    return wanted or pins.find(pins.DEFAULT, known)


def torch_of(python: str) -> Torch:
    """The torch with Gloo that an interpreter imports."""
    from patchgen.core.torch import probe_torch  # few commands need it

    # An installed graft, which may not fit any more, stays out.
    environ = {**os.environ, "SWITCHML_GRAFT": "0"}
    return probe_torch(python, environ).require_gloo()


def find_work(pin: Pin) -> str:
    """Directory to build in by default: a fixed path, for equal wheels."""
    return f"/var/tmp/switchml-patch/{pin.version}"  # noqa: S108  # survives a reboot; not secret


def cache(given: str | None) -> str:
    """The absolute path of the cache.

    Raises:
        OptionsError: the user has no home for it.
    """
    if given is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        if base.startswith("~"):
            raise OptionsError("HOME is not set; name a cache with --cache or XDG_CACHE_HOME")
        given = os.path.join(base, "switchml-patch")
    return os.path.normpath(os.path.join(os.getcwd(), given))


class Sources(NamedTuple):
    """Values of --mirror and --reference."""

    mirrors: tuple[str, ...]
    references: tuple[str, ...]

    def find(self, *references: str) -> Places:
        """Finds the places; further references come last.

        Raises:
            OptionsError: one of them is not there.
        """
        from patchgen.core.source import places  # few commands need it

        return places.Places(
            [places.parse_mirror(mirror) for mirror in self.mirrors],
            [places.parse_reference(reference) for reference in (*self.references, *references)],
        )
