"""A CycloneDX 1.6 document of a wheel. Needs cyclonedx-python-lib; `sbom` sees to it."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.lifecycle import LifecyclePhase, PredefinedLifecycle
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from patchgen import __version__
from patchgen.core.source.addresses import owner_and_name
from patchgen.core.wheel.provenance import CLIENT, PATCH
from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.core.wheel.env.lockfile import Lock, Package
    from patchgen.core.wheel.linked import Library, Linked
    from patchgen.core.wheel.provenance import WheelInputs

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:switchml-patch")
_PROPERTY = "switchml-patch:"


def document(inputs: WheelInputs, lock: Lock | None, linked: Linked) -> str:
    """The JSON text.

    Repositories that were compiled, the patch and the client library are what the wheel consists
    of. What has shared objects that it needs is beside it. The other packages of the lock are
    excluded in scope: they built it, and are no part of it.
    """
    wheel = _wheel(inputs)
    packages = _packages(lock, linked)
    parts = [
        *_repositories(inputs, linked),
        _patch(inputs),
        *_client(inputs),
        *_beside(linked, packages),
    ]
    bom = Bom(
        serial_number=uuid.uuid5(_NAMESPACE, inputs.wheel.sha256),
        metadata=BomMetaData(
            timestamp=datetime.fromtimestamp(inputs.epoch, timezone.utc),
            component=wheel,
            lifecycles=[PredefinedLifecycle(LifecyclePhase.BUILD)],
            tools=ToolRepository(
                components=[
                    Component(
                        name="switchml-patch", version=__version__, type=ComponentType.APPLICATION
                    )
                ]
            ),
        ),
        components=parts,
    )
    needed = [packages[one.conda] for one in linked.libraries if one.conda in packages]
    bom.register_dependency(wheel, [*parts, *needed])
    bom.components.update(packages.values())
    for package in lock.packages if lock is not None else ():
        depends = [packages[name] for name, _ in package.depends if name in packages]
        bom.register_dependency(packages[package.name], depends)
    written = json.loads(JsonV1Dot6(bom).output_as_string())
    return json.dumps(written, indent=2, sort_keys=True) + "\n"


def _wheel(inputs: WheelInputs) -> Component:
    purl = PackageURL("pypi", name="torch", version=inputs.version)
    return Component(
        name="torch",
        version=inputs.version,
        purl=purl,
        bom_ref=purl.to_string(),
        hashes=[_sha256(inputs.wheel.sha256)],
        properties=[Property(name=f"{_PROPERTY}file", value=inputs.wheel.name)],
    )


def _repositories(inputs: WheelInputs, linked: Linked) -> list[Component]:
    """Repositories that were compiled; all, marked as such, where that is unknown."""
    compiled = linked.repositories
    found = [
        _repository(inputs, path)
        for path in sorted(inputs.commits)
        if compiled is None or path in compiled
    ]
    if compiled is None:
        for component in found:
            component.properties.add(Property(name=f"{_PROPERTY}compiled", value="unknown"))
    return found


def _repository(inputs: WheelInputs, path: str) -> Component:
    address, commit = inputs.addresses[path], inputs.commits[path]
    owner, name = owner_and_name(address)
    if "://github.com/" in address:
        purl = PackageURL("github", namespace=owner, name=name, version=commit)
    else:
        qualifiers = {"vcs_url": f"git+{address}@{commit}"}
        purl = PackageURL("generic", name=name, version=commit, qualifiers=qualifiers)
    where = [Property(name=f"{_PROPERTY}path", value=paths.printable(path))] if path else []
    return Component(
        # One repository may be at two places, so the reference has the place.
        bom_ref=f"source:{paths.printable(path) or 'pytorch'}",
        name=name,
        group=owner or None,
        version=commit,
        purl=purl,
        properties=where,
    )


def _patch(inputs: WheelInputs) -> Component:
    flags = " ".join(inputs.options.flags)
    return Component(
        name=PATCH,
        type=ComponentType.FILE,
        bom_ref="patch",
        hashes=[_sha256(inputs.patch_sha256)],
        properties=[Property(name=f"{_PROPERTY}flags", value=flags)],
    )


def _client(inputs: WheelInputs) -> list[Component]:
    if inputs.client_sha256 is None:
        return []
    simulator = "true" if inputs.simulator else "false"
    return [
        Component(
            name=CLIENT,
            bom_ref="client",
            hashes=[_sha256(inputs.client_sha256)],
            properties=[Property(name=f"{_PROPERTY}simulator", value=simulator)],
        )
    ]


def _beside(linked: Linked, packages: Mapping[str, Component]) -> list[Component]:
    """Components with shared objects that the wheel needs, but for the packages of the lock."""
    found: dict[str, Component] = {}
    for library in linked.libraries:
        if library.conda in packages:
            continue
        component = _system(library)
        component = found.setdefault(str(component.bom_ref), component)
        component.properties.add(_file(library))
    return list(found.values())


def _system(library: Library) -> Component:
    package = library.debian
    if package is None:
        return Component(name=library.name, bom_ref=f"library:{library.name}")
    purl = PackageURL(
        "deb",
        namespace=package.distribution,
        name=package.name,
        version=package.version,
        qualifiers={"arch": package.architecture},
    )
    return Component(
        name=package.name, version=package.version, purl=purl, bom_ref=purl.to_string()
    )


def _file(library: Library) -> Property:
    return Property(name=f"{_PROPERTY}needed", value=library.name)


def _packages(lock: Lock | None, linked: Linked) -> dict[str, Component]:
    """The packages of the lock by name; those that the wheel needs are not excluded."""
    found = {package.name: _package(package) for package in lock.packages} if lock else {}
    for library in linked.libraries:
        if library.conda in found:
            found[library.conda].scope = ComponentScope.REQUIRED
            found[library.conda].properties.add(_file(library))
    return found


def _package(package: Package) -> Component:
    kind = "conda" if package.file_name.endswith(".conda") else "tar.bz2"
    purl = PackageURL(
        "conda",
        name=package.name,
        version=package.version,
        qualifiers={
            "build": package.build,
            "channel": package.channel.rsplit("/", 1)[-1],
            "subdir": package.url.rsplit("/", 2)[-2],
            "type": kind,
        },
    )
    return Component(
        name=package.name,
        version=package.version,
        purl=purl,
        bom_ref=purl.to_string(),
        scope=ComponentScope.EXCLUDED,
        hashes=[
            _sha256(package.sha256),
            HashType(alg=HashAlgorithm.MD5, content=package.md5),
        ],
    )


def _sha256(digest: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest)
