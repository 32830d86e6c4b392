"""generate: the patch, from options alone. Imports little, so that it starts quickly."""

from __future__ import annotations

import os

import click

from patchgen.cli import path_types
from patchgen.cli.console import Command, print_json, say_all
from patchgen.cli.params import Variables, json_option, pytorch_option, variable_options
from patchgen.core.patch import patches, pins, report
from patchgen.errors import file_errors
from patchgen.system import files, paths

_NAME = "switchml_pytorch.patch"


@click.command(cls=Command)
@variable_options
@pytorch_option
@path_types.output_option(
    "FILE", f"File to write, - for stdout. [default: BUILDDIR/{_NAME}]", kind=path_types.OUTPUT_FILE
)
@json_option
def generate(
    variables: Variables, pytorch: str | None, output: str | None, *, as_json: bool
) -> None:
    """Write the patch. Needs no network and no PyTorch."""
    if as_json and output == "-":
        raise click.UsageError("--json and -o - both write to stdout; drop one")
    options = variables.read()
    pin = pins.find(pytorch or pins.DEFAULT, pins.read_shipped())
    warnings = variables.warn(options)
    patch = patches.make(options, pin)
    with file_errors():
        name = _write(patch.content, output, options.builddir)
    if as_json:
        print_json(report.generate_data(name, patch, warnings))
    else:
        say_all(report.generate_lines(name, patch))


def _write(content: bytes, output: str | None, builddir: str) -> str:
    if output == "-":
        click.echo(content, nl=False)
        return output
    name = os.path.join(builddir, _NAME) if output is None else paths.from_native(output)
    files.replace(paths.encode(name), content)
    return name
