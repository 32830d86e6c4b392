"""Print what the package makes of a flag XYZ that is added to its table of flags.

Arguments: a client library with the backend Xyz, the repository, and an empty directory.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

from click.testing import CliRunner
from support.variables import find_unlisted

from patchgen.cli import main
from patchgen.core.library import archive, config
from patchgen.core.patch import patches, pins, record, render, report, version
from patchgen.core.wheel.check import advice
from patchgen.errors import PatchgenError
from patchgen.extras.client import building, checkout
from patchgen.options import OptionsError, resolve

HOME, REPOSITORY, EMPTY = sys.argv[1:]
COMMANDS = ("generate", "graft build", "plugin install", "client build", "run", "check")


def refusal(**given: bool) -> str:
    try:
        resolve(given, {}, "/")
    except OptionsError as error:
        return str(error)
    return ""


def client_refusal() -> str:
    """Return the message of a client build, which looks for the library of the flag."""
    sources = {f"{checkout.LIBRARY}/backends/xyz/xyz.h": b"", "dev_root/protos/switchml.proto": b""}
    request = building.ClientRequest(("XYZ",), ())
    headers = [path for path, _ in building._headers(request, sources)]
    assert headers == ["include/switchml/backends/xyz/xyz.h"]
    try:
        building.install(request, sources, f"{EMPTY}/home")
    except PatchgenError as error:
        return str(error)
    return ""


def help_of(command: str) -> str:
    return CliRunner().invoke(main, [*command.split(), "--help"]).output


pin = pins.shipped()[0]
options = resolve({"xyz": True, "debug": True, "switchml_home": HOME}, {}, "/")
patch = patches.make(options, pin)
without_home = CliRunner(env={"SWITCHML_HOME": ""}).invoke(main, ["run", "--xyz", "--", "true"])
built = archive.read(HOME)
known = {
    "flags": options.flags,
    "environment": resolve({}, {"XYZ": "1"}, "/").flags,
    "refusals": [refusal(xyz=True, dpdk=True), refusal(xyz=True, mlx5=True)],
    "help": [name for name in COMMANDS if "--xyz / --no-xyz" in help_of(name)],
    "heading": help_of("generate").partition("Client library:")[2].count("--xyz"),
    "version": version.build_version(pin, options),
    "parsed": version.flags_of(version.build_version(pin, options)),
    "record": json.loads(record.dump(options, pin))["xyz"],
    "read": patches.read(patch.content, [pin], "name") == patch,
    "line": report.options_line(options),
    "data": report.options_data(options)["XYZ"],
    "cmake": render.flags_file(options, pin).decode(),
    "archive": [built.backends, built.about],
    "configuration": config.parse(config.compose_installed(["XYZ"]))["general.backend"],
    "client": client_refusal(),
    "simulator": without_home.output,
    "check": advice.explain_linker("ld: cannot find -lxyz", conda=False),
    "reference": runpy.run_path(f"{REPOSITORY}/docs/reference.py")["text"]().count("`--xyz"),
    "unlisted": find_unlisted(Path(REPOSITORY)),
}
sys.stdout.write(json.dumps(known))
