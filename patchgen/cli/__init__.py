"""The command line. Beside payload/, the only room that prints or exits."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

import click

from patchgen import __version__
from patchgen.cli.console import Group, end, say
from patchgen.errors import EXIT_CODES, FileError, InterruptedRun, OptionsError, PatchgenError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECTIONS = {
    "Patch": ("generate", "apply", "revert", "status", "pins"),
    "Build": ("check", "source", "env", "build", "verify", "rebuild", "compare"),
    "Without a build": ("plugin", "graft"),
    "Train": ("run", "doctor", "demo"),
    "Client library and lab": ("client", "simulator", "switch", "accuracy"),
}
"""The commands: the core in the order of its pipeline, then the extras."""

_EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items()
)
_GONE = "the current directory no longer exists; change to another"


class Commands(Group):
    """The group of all commands. Each is imported when it is used, so that none slows another.

    What a user can mend becomes one or two lines and an exit code.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # as in click
        """Names of the commands, section by section."""
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command from the module of its name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"patchgen.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def sections(self, ctx: click.Context) -> Mapping[str, Sequence[str]]:
        """The commands: the core in the order of its pipeline, then the extras."""
        return SECTIONS

    def main(self, *args: Any, **given: Any) -> Any:  # as in click
        """Runs the program and ends it."""
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # GitPython serves without a git
        os.environ.setdefault("PATH", os.defpath)  # cmake looks there for its own files
        return super().main(*args, **given)

    def invoke(self, ctx: click.Context) -> Any:  # as in click
        """Runs a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            error: PatchgenError = InterruptedRun("interrupted")
        except (PatchgenError, FileNotFoundError) as caught:
            if _without_directory(caught):
                error = OptionsError(_GONE)
            elif isinstance(caught, PatchgenError):
                error = caught
            else:
                raise
        say(str(error) if isinstance(error, InterruptedRun) else f"error: {error}")
        return end(error.exit_code)


def _without_directory(error: BaseException | None) -> bool:
    """Tells whether an error is that the current directory was removed."""
    if isinstance(error, FileError):
        error = error.__cause__
    if not isinstance(error, FileNotFoundError) or error.filename is not None:
        return False
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="switchml-patch")
def main() -> None:
    """Patches PyTorch so that Gloo's allreduce runs in the network through SwitchML.

    An option comes from the command line, else from the environment, else it has its default.
    Default paths are under the current directory, or under --dev-root.
    """
