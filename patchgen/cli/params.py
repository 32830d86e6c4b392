"""Options that several commands share, and the values that they are converted to."""

from __future__ import annotations

import functools
import math
import os
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import click

from patchgen.cli import path_types
from patchgen.cli.console import completing, option, say
from patchgen.core.library import homes
from patchgen.core.patch import pins
from patchgen.errors import OptionsError
from patchgen.options import DEV_ROOT, HOMES, VARIABLES, Options, Variable, resolve
from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.core.patch.pins import Pin
    from patchgen.core.source.remotes import Remotes
    from patchgen.core.torch import Torch
    from patchgen.core.wheel import BuildRequest

Command = Callable[..., Any]

LOCK = "conda-lock.yml"
ENVIRONMENT_FILE = "environment.yml"
WORK = "/var/tmp/switchml-patch"  # noqa: S108  # survives a reboot; not secret
LIBRARY = "Client library"
PATHS = "Files and directories"
_ABOUT_LIBRARY = [variable for variable in VARIABLES if variable.name != "BUILDDIR"]


class FiniteRange(click.FloatRange):
    """Range of floats without nan and infinity, which click's own range accepts."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # as in click
        """Convert a number, and refuse one that is not finite."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


SECONDS = FiniteRange(min=1, max=86_400.0)
"""Time limit in seconds, at most a day."""

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON on stdout."
)
complete_pin = completing(lambda: [pin.name for pin in pins.shipped()])
pytorch_option = option(
    "--pytorch",
    group="Source",
    type=path_types.Named(),
    metavar="PIN",
    shell_complete=complete_pin,
    help=f"Version, commit prefix or pin file of PyTorch; switchml-patch pins lists the versions. "
    f"[default: {pins.DEFAULT}, or the pin of the tree]",
)
work_option = option(
    "--work",
    group=PATHS,
    type=path_types.Named(),
    metavar="DIR",
    help="Directory for source, environment and objects. Its path gets into the wheel only where "
    f"mount namespaces are not allowed. [default: {WORK}/VERSION]",
)
python_option = click.option(
    "--python", "interpreter", type=path_types.Named(), metavar="PYTHON",
    help="Build with this interpreter and the compiler on PATH, without conda.",
)  # fmt: skip
torch_option = click.option(
    "--torch", "torch_python", type=path_types.Named(), default="python3", show_default=True,
    metavar="PYTHON", help="Interpreter whose torch is used.",
)  # fmt: skip
lock_option = option(
    "--lock", "lock_file", group=PATHS, type=path_types.Named(), default=LOCK, metavar="FILE",
    help=f"Lock file of the conda environment, written by env lock. [default: {LOCK}]",
)  # fmt: skip
accept_option = click.option(
    "--accept", "accepted", type=click.Choice(["crash-at-exit", "no-blas"]), multiple=True,
    help="Build although `check` refuses: without BLAS and LAPACK, or for a Python under which "
    "this PyTorch crashes at exit. May be repeated.",
)  # fmt: skip
cache_option = option(
    "--cache", group=PATHS, type=path_types.Named(), metavar="DIR",
    help="Directory for downloads and reusable builds. [default: switchml-patch under ~/.cache]",
)  # fmt: skip
config_option = click.option(
    "--config", "configs", type=path_types.Named(exists=True, dir_okay=False), multiple=True,
    metavar="FILE",
    help="The switchml.cfg of a rank; repeat it for each rank. [default: two ranks, with the "
    "simulator or the dummy backend]",
)  # fmt: skip
without_option = option(
    "--without",
    group="Source",
    type=path_types.Named(),
    multiple=True,
    callback=lambda _context, _option, given: tuple(os.path.normpath(path) for path in given),
    metavar="PATH",
    help="Submodule to leave out, with its own submodules, in this run and later ones. May be "
    "repeated.",
)
_set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a variable of PyTorch's build, whatever the environment has. May be repeated.",
)
_jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of compilers that run at once. [env: MAX_JOBS; default: by cores and memory]",
)
_mirror_option = option(
    "--mirror",
    "mirrors",
    group="Source",
    type=path_types.Named(),
    multiple=True,
    metavar="URL|PATH",
    help="Place to fetch from before the network is tried: a directory of clones named OWNER+NAME, "
    "OWNER/NAME or NAME, a clone, or a base URL. May be repeated.",
)
_reference_option = option(
    "--reference",
    "references",
    group="Source",
    multiple=True,
    type=path_types.Named(),
    metavar="PATH",
    help="Clone to copy Git objects from; a clone of PyTorch serves its submodules as well. May be "
    "repeated.",
)


def gather(
    name: str, kind: Callable[[Mapping[str, Any]], object], keys: Sequence[str]
) -> Callable[[Command], Command]:
    """Return a decorator that passes some options to a command as one value.

    Args:
        name: parameter of the command that gets the value.
        kind: builds the value from a mapping of these options by name.
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
    """Variables of the patch that were given on the command line."""

    given: Mapping[str, bool | str | None]
    """Values by field of `Options`, and `dev_root`; None where an option was not given."""

    @property
    def spelled(self) -> list[str]:
        """Options that were given, as flags."""
        return [
            f"--{name.replace('_', '-')}" for name, value in self.given.items() if value is not None
        ]

    def read(self) -> Options:
        """Resolve the variables from the command line, the environment and the defaults.

        Raises:
            OptionsError: a value is refused.
        """
        try:
            cwd = os.getcwd()
        except FileNotFoundError:
            cwd = None
        return resolve(self.given, os.environ, cwd)

    def read_library(self) -> Options | None:
        """Resolve the variables if they name a client library, else return None.

        Raises:
            OptionsError: a value is refused, or an option is of a client library that is not named.
        """
        named = [variable for variable in VARIABLES if variable.field == "switchml_home"]
        if any(self.given[one.field] or os.environ.get(one.name) for one in (*named, DEV_ROOT)):
            return self.read()
        for variable in _ABOUT_LIBRARY:
            if self.given.get(variable.field) is not None:
                raise OptionsError(
                    f"{variable.flag} belongs to a client library; "
                    "name the library with --switchml-home"
                )
        return None

    def find_library(self, options: Options, cache: str) -> Options:
        """Return options to link with the client library, or with the simulator if none is named.

        Raises:
            OptionsError: the named client library is incomplete.
            ToolError: the simulator could not be built.
            FileError: the cache cannot be written.
        """
        from patchgen.extras.lab import simulator  # few commands need it

        simulates = bool(homes.find_missing(options)) and self.read_library() is None
        if simulates:
            say("no client library is named with --switchml-home: the switch is simulated")
        return simulator.find_library(None if simulates else options, cache, os.environ)

    def warn(self, options: Options) -> list[str]:
        """Print a warning for each home that lacks files, and advice; return the warnings."""
        missing: dict[str, list[str]] = {}
        for one in homes.find_missing(options):
            missing.setdefault(one.variable, []).append(one.problem)
        warnings = [f"{name}: {'; '.join(problems)}" for name, problems in missing.items()]
        for line in warnings:
            say(f"warning: {line}")
        if warnings:
            say(homes.ADVICE.format(", ".join(missing)))
        return warnings


def these_variables(command: Command, variables: Sequence[Variable]) -> Command:
    """Add options of these variables and of --dev-root; the command gets them as `variables`."""
    added = (DEV_ROOT, *reversed(variables))
    command = gather("variables", Variables, [variable.field for variable in added])(command)
    for variable in added:
        command = _option(variable)(command)
    return command


variable_options = functools.partial(these_variables, variables=VARIABLES)
library_options = functools.partial(these_variables, variables=_ABOUT_LIBRARY)
flag_options = functools.partial(
    these_variables, variables=[v for v in VARIABLES if v.boolean or v.name == "BUILDDIR"]
)
simulating_options = functools.partial(
    these_variables,
    variables=[
        v._replace(default="the simulator") if v.name == "SWITCHML_HOME" else v
        for v in _ABOUT_LIBRARY
    ],
)


def _option(variable: Variable) -> Callable[[Command], Command]:
    text = variable.help[0].upper() + variable.help[1:]
    text = f"{text}. [env: {variable.name}; default: {variable.default}]"
    if variable.boolean:
        names = f"{variable.flag}/--no-{variable.field}"
        return option(names, group=LIBRARY, default=None, help=text)
    group = LIBRARY if variable.field in HOMES else PATHS
    return option(variable.flag, group=group, type=path_types.Named(), metavar="DIR", help=text)


def remote_options(command: Command) -> Command:
    """Add --mirror and --reference; the command gets them as `remotes`."""

    def find(given: Mapping[str, Any]) -> Remotes:
        from patchgen.core.source import remotes  # few commands need it

        return remotes.Remotes(
            [remotes.parse_mirror(mirror) for mirror in given["mirrors"]],
            [remotes.parse_reference(reference) for reference in given["references"]],
        )

    command = gather("remotes", find, ("mirrors", "references"))(command)
    return _mirror_option(_reference_option(command))


_CHECKED = ("variables", "pytorch", "work", "interpreter", "lock_file", "accepted")
_BUILT = ("cache", "remotes", "without", "settings", "jobs", "configs")


def check_options(command: Command) -> Command:
    """Add the options that `check` and `build` share; the command gets them as `request`."""
    return _shared_options(gather("request", _read_check, _CHECKED)(command))


def build_options(command: Command) -> Command:
    """Add all options of a build; the command gets them as `request`."""
    command = gather("request", _read_build, (*_CHECKED, *_BUILT))(command)
    added = (config_option, _jobs_option, _set_option, without_option, remote_options, cache_option)
    for add in added:
        command = add(command)
    return _shared_options(command)


def _shared_options(command: Command) -> Command:
    for add in (accept_option, lock_option, python_option, work_option, pytorch_option):
        command = add(command)
    return variable_options(command)


def _read_check(given: Mapping[str, Any]) -> BuildRequest:
    from patchgen.core.wheel import BuildRequest

    return BuildRequest(**_read_shared(given), python=given["interpreter"])


def _read_build(given: Mapping[str, Any]) -> BuildRequest:
    from patchgen.core.wheel import BuildRequest, variables
    from patchgen.system.interpreter import locate

    python = given["interpreter"]
    return BuildRequest(
        **_read_shared(given),
        python=locate(python) if python else None,
        cache=cache(given["cache"]),
        settings=variables.parse(given["settings"]),
        remotes=given["remotes"],
        without=given["without"],
        jobs=given["jobs"],
        configs=tuple(os.path.abspath(path) for path in given["configs"]),
    )


def _read_shared(given: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve names and paths of the command line and the environment."""
    from patchgen.core.patch import patches  # few commands need it
    from patchgen.core.wheel import conda

    known, wanted = known_pins(given["pytorch"])
    pin, cwd = wanted or pins.find(pins.DEFAULT, known), os.getcwd()
    options = given["variables"].read()
    # By default a fixed path, because it may get into the wheel.
    work = given["work"] or f"{WORK}/{pin.version}"
    return {
        "patch": patches.make(options, pin),
        "work": os.path.normpath(os.path.join(cwd, work)),
        "output": os.fsdecode(paths.encode(options.builddir)),
        "lock": os.path.join(cwd, given["lock_file"]),
        "environment_file": conda.locate(ENVIRONMENT_FILE, cwd),
        "environ": dict(os.environ),
        "accepted": tuple(sorted({*given["accepted"]})),
    }


def known_pins(pytorch: str | None) -> tuple[tuple[Pin, ...], Pin | None]:
    """Return the known pins, and the pin that the user named, or None.

    A pin file that the user named comes first among the known pins.

    Raises:
        OptionsError: the pin is unknown.
    """
    shipped = pins.shipped()
    if pytorch is None:
        return shipped, None
    wanted = pins.find(pytorch, shipped)
    return (shipped if wanted in shipped else (wanted, *shipped)), wanted


def torch_of(python: str) -> Torch:
    """Return the torch of an interpreter, which must have Gloo."""
    from patchgen.core.torch import probe_torch  # few commands need it

    # An installed graft is not loaded, because it may no longer fit.
    environ = {**os.environ, "SWITCHML_GRAFT": "0"}
    return probe_torch(python, environ).require_gloo()


def cache(given: str | None) -> str:
    """Return the absolute path of the cache.

    Raises:
        OptionsError: no cache was named, and HOME is not set.
    """
    if given is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        if base.startswith("~"):
            raise OptionsError("HOME is not set; name a cache with --cache or XDG_CACHE_HOME")
        given = os.path.join(base, "switchml-patch")
    return os.path.abspath(given)
