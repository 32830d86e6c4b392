"""Makes a lock from an environment file."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from patchgen.core.wheel.conda import lockfile, solve, spec
from patchgen.core.wheel.conda.lockfile import Lock
from patchgen.errors import OptionsError
from patchgen.system import outputs

_LOGGER = logging.getLogger(__name__)


def make_lock(
    source: str,
    output: str,
    *,
    platform: str,
    channels: Sequence[str],
    cache: str,
) -> Lock:
    """Solve an environment file and write the lock. Logs each step.

    The lock is replaced atomically. `channels` take the place of the file's, if there are any.

    Raises:
        OptionsError: the file cannot be used, or there is no solution.
        ToolError: a channel cannot be read.
        FileError: a file cannot be read or written.
    """
    environment = spec.load(source)
    assumed = environment.virtual(platform)
    used = [spec.parse_channel(text) for text in channels or environment.channels]
    if not used:
        raise OptionsError(f"{source}: channels: there are none; name one with --channel")
    specs = environment.dependencies
    names = ", ".join(channel.name for channel in used)
    _LOGGER.info("solving %d dependencies for %s from %s", len(specs), platform, names)
    repodata = os.path.join(cache, "repodata")
    outputs.make_cache(repodata)
    packages = solve.solve(specs, used, platform, assumed, repodata)
    unknown = sorted(set(environment.link_scripts) - {package.name for package in packages})
    if unknown:
        raise OptionsError(
            f"{source}: link_scripts: {', '.join(unknown)}: not among the packages of the solution"
        )
    lock = Lock(
        platform=platform,
        packages=packages,
        channels=tuple(location for channel in used for location in channel.locations),
        source=lockfile.relative_source(source, output),
        content_hash=environment.content_hash(platform),
        virtual_packages=",".join(f"{name}={version}" for name, version in assumed.items()),
        link_scripts=environment.link_scripts,
        required_files=environment.required_files,
    )
    lockfile.write(lock, output)
    return lock
