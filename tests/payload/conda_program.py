"""Solves as `conda create --dry-run --json` does: enough of conda's command line for conda-lock."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import rattler
from rattler.exceptions import SolverError


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write("conda 99.1\n")
        return 0
    arguments, channels, specs = sys.argv[2:], [], []
    while arguments:
        argument = arguments.pop(0)
        if argument == "--channel":
            channels.append(arguments.pop(0))
        elif argument == "--prefix":
            arguments.pop(0)
        elif not argument.startswith("--"):
            specs.append(argument)
    with open(os.environ["SEEN"], "w", encoding="utf-8") as file:
        json.dump({"priority": os.environ["CONDA_CHANNEL_PRIORITY"], "channels": channels}, file)
    virtual = [
        rattler.GenericVirtualPackage(
            rattler.PackageName(f"__{name.removeprefix('CONDA_OVERRIDE_').lower()}"),
            rattler.Version(version),
            rattler.BuildString("0"),
        )
        for name, version in os.environ.items()
        if name.startswith("CONDA_OVERRIDE_") and version and version[0].isdigit()
    ]
    sources = [channel for channel in channels if "fake-repodata" not in channel]
    named = [rattler.MultiSource(source, [source]) for source in sources]
    try:
        records = asyncio.run(
            rattler.solve(named, specs, platforms=["linux-64", "noarch"], virtual_packages=virtual)
        )
    except SolverError as error:
        sys.stdout.write(json.dumps({"message": str(error)}))
        return 1
    fetch = [json.loads(record.to_json()) for record in records]
    sys.stdout.write(json.dumps({"actions": {"FETCH": fetch, "LINK": []}}))
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the solver's threads outlive Python's end, now and then with a crash
