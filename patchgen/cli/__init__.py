"""The command line. Beside payload/, the only room that prints or exits."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from patchgen import __version__
from patchgen.cli.program import EPILOG, Main

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECTIONS = {
    "Try": ("demo", "run", "doctor", "simulator", "switch", "accuracy"),
    "Use": ("plugin", "graft", "client"),
    "Patch": ("generate", "apply", "revert", "status", "pins"),
    "Build": ("check", "source", "env", "build", "verify", "compare", "rebuild"),
}
"""The commands, by what a newcomer needs first."""


class Commands(Main):
    """The group of all commands. Each is imported when it is used, so that none slows another."""

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
        """The commands, by what a newcomer needs first."""
        return SECTIONS


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="switchml-patch")
def main() -> None:
    """Patches PyTorch so that Gloo's allreduce runs in the network through SwitchML.

    An option comes from the command line, else from the environment, else it has its default.
    Default paths are under the current directory, or under --dev-root.
    """
