"""Solves an environment with py-rattler: strict channel priority, given virtual packages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen.core.wheel.env.lockfile import Package
from patchgen.core.wheel.env.spec import Channel
from patchgen.errors import OptionsError, ToolError

if TYPE_CHECKING:
    from rattler import GenericVirtualPackage, MatchSpec, RepoDataRecord


def solve(
    specs: Sequence[str],
    channels: Sequence[Channel],
    platform: str,
    virtual: Mapping[str, str],
    cache: str,
) -> tuple[Package, ...]:
    """Return packages that satisfy all specs.

    Args:
        specs: specs of the environment file; `channel::package` names a channel.
        channels: channels by priority; a package comes only from the first one that has it.
        platform: platform, such as linux-64, in addition to noarch.
        virtual: versions of virtual packages (VERSION[=BUILD]) by name without underscores.
        cache: directory of channel indexes.

    Raises:
        OptionsError: a spec is invalid, or there is no solution.
        ToolError: a channel cannot be read.
    """
    import rattler  # slow to import
    from rattler.exceptions import GatewayError, SolverError

    try:
        records = asyncio.run(
            rattler.solve(
                [rattler.MultiSource(channel.name, channel.locations) for channel in channels],
                [_spec(text) for text in specs],
                gateway=rattler.Gateway(cache_dir=Path(cache)),
                platforms=[rattler.Subdir(platform), rattler.Subdir("noarch")],
                virtual_packages=[_virtual(*item) for item in virtual.items()],
                channel_priority=rattler.ChannelPriority.Strict,
                channel_relations="disabled",  # a channel may not add other channels
            )
        )
    except SolverError as error:
        stated = ", ".join(f"{name} {version}" for name, version in virtual.items())
        raise OptionsError(
            f"no solution for {platform} with {stated}, from "
            f"{', '.join(channel.name for channel in channels)}:\n{str(error).strip()}"
        ) from error
    except GatewayError as error:
        raise ToolError(
            f"a channel cannot be read: {error}\nname a mirror of it with --channel NAME=URL"
        ) from error
    return tuple(sorted(map(_package, records), key=lambda package: package.name))


def _spec(text: str) -> MatchSpec:
    import rattler
    from rattler.exceptions import InvalidMatchSpecError

    try:
        return rattler.MatchSpec(text)
    except InvalidMatchSpecError as error:
        raise OptionsError(f"dependency {text!r}: {error}") from error


def _virtual(name: str, version: str) -> GenericVirtualPackage:
    import rattler
    from rattler.exceptions import InvalidVersionError

    number, _, build = version.partition("=")
    try:
        return rattler.GenericVirtualPackage(
            rattler.PackageName(f"__{name}"),
            rattler.Version(number),
            rattler.BuildString(build or "0"),
        )
    except InvalidVersionError as error:
        raise OptionsError(f"virtual package {name}: {version!r} is no version") from error


def _package(record: RepoDataRecord) -> Package:
    return Package(
        name=record.name.normalized,
        version=str(record.version),
        build=str(record.build),
        url=record.url,
        md5=(record.md5 or b"").hex(),
        sha256=(record.sha256 or b"").hex(),
        depends=tuple(sorted(depends(record.depends).items())),
    )


def depends(specs: Iterable[str]) -> dict[str, str]:
    """Return versions of dependencies by name, joined if a name occurs several times."""
    found: dict[str, list[str]] = {}
    for text in specs:
        name, _, rest = text.partition(" ")
        found.setdefault(name, []).extend(rest.split()[:1])
    return {name: ",".join(versions) for name, versions in found.items()}
