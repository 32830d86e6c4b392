"""Solves an environment with py-rattler: strict channel priority, given virtual packages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen.core.wheel.conda.lockfile import Package
from patchgen.core.wheel.conda.spec import Channel
from patchgen.errors import OptionsError, ToolError

if TYPE_CHECKING:
    from rattler import GenericVirtualPackage, MatchSpec, RepoDataRecord

_LOGGER = logging.getLogger(__name__)
_EXTERNAL = "external"  # in a build string: an empty package that stands for one of the system


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
        OptionsError: a spec is invalid, there is no solution, or an empty package would serve it.
        ToolError: a channel cannot be read.
    """
    import rattler  # slow to import
    from rattler.exceptions import GatewayError, SolverError

    wanted = [_spec(text) for text in specs]
    try:
        records = asyncio.run(
            rattler.solve(
                [rattler.MultiSource(channel.name, channel.locations) for channel in channels],
                wanted,
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
    packages = tuple(sorted(map(_package, records), key=lambda package: package.name))
    _refuse_external(packages, wanted)
    return packages


def _refuse_external(packages: Iterable[Package], specs: Iterable[MatchSpec]) -> None:
    """Refuse a package of a spec that holds nothing, unless the spec itself asks for this build."""
    builds: dict[str, str] = {}
    for spec in specs:
        name = spec.name.normalized
        builds[name] = builds.get(name, "") + (spec.build or "")
    for package in packages:
        if _EXTERNAL not in package.build.split("_"):
            continue
        name = package.name
        what = (
            f"{name} {package.version} {package.build} is empty: it stands for {name} of the system"
        )
        if name not in builds:
            _LOGGER.info("warning: %s", what)
        elif _EXTERNAL not in builds[name]:
            raise OptionsError(
                f"{what}\nname a version of {name} that has another build, or ask for this one "
                f"with {name}=*={package.build}"
            )


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
    """Return VERSION or VERSION BUILD of dependencies by name.

    Versions are joined where a name occurs several times, and the first build is kept.
    """
    import rattler

    found: dict[str, list[MatchSpec]] = {}
    for text in specs:
        spec = rattler.MatchSpec(text, strict=False)
        found.setdefault(spec.name.normalized, []).append(spec)
    return {name: _join(known) for name, known in found.items()}


def _join(specs: Sequence[MatchSpec]) -> str:
    versions = ",".join(dict.fromkeys(spec.version for spec in specs if spec.version))
    build = next((spec.build for spec in specs if spec.build), None)
    return f"{versions or '*'} {build}" if build else versions
