"""The command line. The only part that reads the environment, prints, or exits."""

from __future__ import annotations

import importlib

import click

from patchgen import __version__
from patchgen.cli.common import EPILOG, Main

# Imported when they are used, so that none slows another down.
COMMANDS = {
    "accuracy": "measuring",
    "apply": "patching",
    "build": "building",
    "check": "preflight",
    "compare": "comparing",
    "demo": "demonstrating",
    "env": "environment",
    "generate": "patching",
    "graft": "grafting",
    "pins": "maintaining",
    "plugin": "plugging",
    "revert": "patching",
    "run": "launching",
    "simulator": "simulating",
    "source": "sourcing",
    "status": "patching",
    "verify": "verifying",
}


class Commands(Main):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # as in click
        """Their names."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """One of them."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"patchgen.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="switchml-patch")
def main() -> None:
    """Patches PyTorch so that Gloo's allreduce runs in the network through SwitchML.

    An option comes from the command line, else from the environment, else it has its default;
    default paths are under the dev root.
    """
