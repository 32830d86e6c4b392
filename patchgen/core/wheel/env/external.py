"""A solution by a conda, mamba or micromamba that the user names, through conda-lock."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING

from patchgen.core.wheel.env import lockfile
from patchgen.errors import ToolError, file_errors
from patchgen.system import files
from patchgen.system.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.core.wheel.env.lockfile import Package
    from patchgen.core.wheel.env.spec import Channel

# Without a traceback, which would push the program's own message out of what is shown.
_CONDA_LOCK = "import sys, conda_lock; sys.tracebacklimit = 0; conda_lock.main()"


def solve(  # noqa: PLR0913  # the arguments of the other solver, and the program's
    program: str,
    specs: Sequence[str],
    channels: Sequence[Channel],
    platform: str,
    virtual: Mapping[str, str],
    *,
    environ: Mapping[str, str],
) -> tuple[Package, ...]:
    """Finds packages that satisfy all specs, as `build.env.solve` does.

    Args:
        program: conda, mamba or micromamba. conda-lock would download one that is not there.
        specs: as in an environment file; `channel::package` takes it from that channel.
        channels: in order of priority.
        platform: as linux-64.
        virtual: virtual packages by name without underscores, as VERSION[=BUILD].
        environ: of the user.

    Raises:
        ToolError: the program is missing or failed, which it also does without a solution.
        OptionsError: the solution cannot be locked.
    """
    found = shutil.which(program)
    if found is None:
        raise ToolError(f"{program}: not found, or not executable; drop --conda to do without")
    asked = {
        "channels": [location for channel in channels for location in channel.locations],
        "dependencies": [_with_location(text, channels) for text in specs],
    }
    packages = {f"__{name}": version.replace("=", " ") for name, version in virtual.items()}
    with files.scratch("lock") as directory, file_errors():
        names = {name: os.path.join(directory, name) for name in ("environment.yml", "virtual.yml")}
        for name, data in {
            "environment.yml": asked,
            "virtual.yml": {"subdirs": {platform: {"packages": packages}}},
        }.items():
            with open(names[name], "w", encoding="utf-8") as file:
                json.dump(data, file)  # which is YAML
        output = os.path.join(directory, "conda-lock.yml")
        argv = [
            *(sys.executable, "-W", "ignore", "-c", _CONDA_LOCK, "lock"),
            *("--conda", os.path.abspath(found), "--platform", platform),
            *("--file", names["environment.yml"], "--lockfile", output),
            *("--virtual-package-spec", names["virtual.yml"]),
        ]
        strict = {f"{tool}_CHANNEL_PRIORITY": "strict" for tool in ("CONDA", "MAMBA")}
        run(argv, env={**environ, **strict}, limit=None, supervised=True)
        return lockfile.sorted_packages(lockfile.read(output).packages)


def _with_location(text: str, channels: Sequence[Channel]) -> str:
    """A spec whose channel is a URL where its name is known to us alone."""
    name, colons, rest = text.partition("::")
    for channel in channels:
        if colons and channel.name == name and len(channel.locations) == 1:
            return f"{channel.locations[0]}::{rest}"
    return text
