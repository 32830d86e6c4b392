"""generate: the patch, from options alone. Must be quick, so it imports no more than it needs."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass

import click

from patchgen.cli import path_types
from patchgen.cli.console import Command, print_json, say_all, write_bytes
from patchgen.cli.params import Variables, into, json_option, pytorch_option, variable_options
from patchgen.core.patch import patchfile, pins, report
from patchgen.errors import file_errors
from patchgen.system import files, paths

_NAME = "switchml_pytorch.patch"


@dataclass(frozen=True)
class _Request:
    variables: Variables
    pytorch: str | None
    output: str | None
    as_json: bool


@click.command(cls=Command)
@variable_options
@pytorch_option
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_FILE,
    metavar="FILE",
    help=f"File to write, - for stdout. [default: BUILDDIR/{_NAME}]",
)
@json_option
@into(_Request)
def generate(request: _Request) -> None:
    """Writes the patch. Needs no network and no PyTorch."""
    if request.as_json and request.output == "-":
        raise click.UsageError("--json and -o - both write to stdout; drop one")
    options = request.variables.read()
    pin = pins.find(request.pytorch or pins.DEFAULT, pins.read_shipped())
    warnings = request.variables.warn(options)
    content = patchfile.build(options, pin)
    digest = hashlib.sha256(content).hexdigest()
    with file_errors():
        name = _write(content, request.output, options.builddir)
    if request.as_json:
        print_json(report.generate_data(name, digest, pin, options, warnings))
    else:
        say_all(report.generate_lines(name, len(content), digest, pin, options))


def _write(content: bytes, output: str | None, builddir: str) -> str:
    """Writes the patch where it belongs and returns where that is."""
    if output == "-":
        write_bytes(sys.stdout, content)
        return output
    name = os.path.join(builddir, _NAME) if output is None else paths.from_native(output)
    files.replace(paths.encode(name), content)
    return name
