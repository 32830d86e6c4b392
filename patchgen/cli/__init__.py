"""Command line. Only this package, and files under payload/, print or exit."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

import click

from patchgen import __version__
from patchgen.cli.console import NAME, Group, end, say
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
"""Commands by their heading in --help: the core in the order of its pipeline, then the extras."""

_EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items()
)
_GONE = "the current directory no longer exists; change to another"


class Commands(Group):
    """Group of all commands.

    Imports the module of a command only when the command is used, so that it starts quickly. Prints
    an error that a user can fix as one or two lines, and exits with its code.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # as in click
        """Return the names of all commands, section by section."""
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command from the module of its name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"patchgen.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def sections(self, ctx: click.Context) -> Mapping[str, Sequence[str]]:
        """Return the commands by heading."""
        return SECTIONS

    def main(self, *args: Any, **given: Any) -> Any:  # as in click
        """Prepare the environment of imported libraries, and run the program."""
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # GitPython serves without a git
        os.environ.setdefault("PATH", os.defpath)  # cmake looks there for its own files
        if not os.environ.get("HOME"):
            os.environ.pop("HOME", None)  # empty, it would be the root directory
        return super().main(*args, **given)

    def invoke(self, ctx: click.Context) -> Any:  # as in click
        """Run a command; print a `PatchgenError`, and exit with its code."""
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
        say(_printable(str(error) if isinstance(error, InterruptedRun) else f"error: {error}"))
        return end(error.exit_code)


def _printable(text: str) -> str:
    """Return the lines of a message without what a terminal would obey or cannot show."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


def _without_directory(error: BaseException | None) -> bool:
    """Return whether the error means that the current directory was removed."""
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
@click.version_option(__version__, prog_name=NAME)
def main() -> None:
    """Patch PyTorch so that Gloo's allreduce runs in the network through SwitchML.

    An option is taken from the command line, else from the environment, else from its default.
    Default paths are relative to the current directory, or to --dev-root.
    """
