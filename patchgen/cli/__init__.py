"""The command line. The only part that reads the environment, prints, or exits."""

from __future__ import annotations

import click

from patchgen import __version__
from patchgen.cli import maintaining, patching, running
from patchgen.cli.common import EPILOG, Main


@click.group(cls=Main, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="switchml-patch")
def main() -> None:
    """Patches PyTorch so that Gloo's allreduce runs in the network through SwitchML.

    An option comes from the command line, else from the environment, else it has its default;
    default paths are under the dev root.
    """


for command in (
    patching.generate,
    patching.apply,
    patching.revert,
    patching.status,
    maintaining.pins,
    running.simulator,
    running.graft,
):
    main.add_command(command)
