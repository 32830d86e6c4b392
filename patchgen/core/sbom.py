"""SBOM of a wheel, a graft or a client library, as CycloneDX 1.6.

It lists the sources that the provenance names, and the libraries that the linker wrote into the
shared objects. The same inputs give the same bytes.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cyclonedx.model.bom import Bom
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.version import InvalidVersion, Version

from patchgen.core.library import origin
from patchgen.core.source.addresses import PYTORCH, SOURCE, owner_and_name
from patchgen.errors import file_errors
from patchgen.system import files, statement
from patchgen.system.process import LIMIT, Program, capture
from patchgen.system.statement import Provenance

Component = dict[str, Any]
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, statement.BUILDER)
_NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
_LOADED = re.compile(r"^\s+(\S+) => (/.+) \(0x", re.MULTILINE)
# Libraries of the compiler, of which each machine has its own, and of torch.
_RUNTIME = re.compile(
    r"ld-linux.*|lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+)\.so\.\d+|lib(torch|c10|shm)\w*\.so"
)
_OWNER = re.compile(r"^([^, ]+)(?:, .*)?: (/.+)$", re.MULTILINE)
_FIELDS = "${binary:Package} ${Package} ${Version} ${Architecture} ${source:Package}\n"
_LINKED = re.compile(r"(\S+)(?: (\S+))? \((.*)\)")
_STATIC = {"DPDK": "libdpdk.a", "gRPC": "libgrpc++.a", "protobuf": "libprotobuf.a"}
_VERSION = re.compile(r"\d+(?:\.\d+)+|$")
_COMMIT = re.compile("[0-9a-f]{40}")
_GITHUB = re.compile(r"(?:\w+://)?(?:[^/@]+@)?github\.com[:/]")
_SCP = re.compile(r"^([^/:@]+@[^/:]+):(?!/)")  # as git@example.com:owner/name, which is not a URL
_INDEX = re.compile(r"cpu|xpu|cu\d+|rocm\d+(?:\.\d+)*")
_INDEXES = "https://download.pytorch.org/whl"  # one index for each local version of PyTorch's own
_CONDA = "https://repo.anaconda.com"  # the default of purl's type conda
_TOKEN = re.compile("^/t/[^/]+")


def find_libraries(objects: Sequence[str], environ: Mapping[str, str]) -> list[Component]:
    """Find the libraries that shared objects need, except those of the compiler and of torch.

    Raises:
        ToolError: readelf or ldd does not run.
        FileError: a library cannot be read.
    """
    read = _ask([environ.get("READELF") or "readelf", "-dW", *objects], environ)
    loaded = dict(_LOADED.findall(_ask(["ldd", *objects], environ)))
    paths = {
        name: os.path.realpath(loaded[name]) if name in loaded else ""
        for name in sorted({*_NEEDED.findall(read)} - {*map(os.path.basename, objects)})
        if not _RUNTIME.fullmatch(name)
    }
    packages = _find_packages([*filter(None, paths.values())], environ)
    return [_describe(name, packages.get(path), file=path) for name, path in paths.items()]


def find_torch(root: str, environ: Mapping[str, str]) -> PackageURL | None:
    """Find the package of conda or dpkg that an installed torch is of; None if it is of neither.

    Raises:
        ToolError: dpkg-query does not run.
        FileError: a record cannot be read.
    """
    path = os.path.realpath(os.path.join(root, "version.py"))
    return _find_packages([path], environ).get(path)


def _ask(command: Sequence[str], environ: Mapping[str, str]) -> str:
    program = Program(command, "/", {**environ, "LC_ALL": "C.UTF-8"})
    return capture(program, limit=LIMIT).out.decode(errors="replace")


def _find_packages(paths: Sequence[str], environ: Mapping[str, str]) -> dict[str, PackageURL]:
    """Find the packages of files: in the records of a conda prefix, else by dpkg."""
    found = {path: package for path in paths if (package := _find_conda_package(path))}
    rest = [path for path in paths if path not in found]
    if not rest or not shutil.which("dpkg-query", path=environ.get("PATH")):
        return found
    names = [path.removeprefix("/usr") for path in rest]  # as packages before the merge of /usr
    owned = _OWNER.findall(_ask(["dpkg-query", "--search", *rest, *names], environ))
    owners = {os.path.realpath(path): owner for owner, path in owned}
    if not owners:
        return found
    shown = _ask(["dpkg-query", "--show", f"--showformat={_FIELDS}", *owners.values()], environ)
    rows = {row[0]: row[1:] for row in map(str.split, shown.splitlines())}
    with file_errors(), open("/etc/os-release", encoding="utf-8") as file:
        system = dict(word.split("=", 1) for word in shlex.split(file.read(), comments=True))
    for path in owners.keys() & {*paths}:
        name, version, arch, source = rows[owners[path]]
        distro = f"{system['ID']}-{system['VERSION_ID']}"
        more = {"arch": arch, "distro": distro, "upstream": source}  # scanners read all of them
        found[path] = PackageURL("deb", system["ID"], name, version, more)
    return found


def _find_conda_package(path: str) -> PackageURL | None:
    parents = (parent for parent in Path(path).parents if (parent / "conda-meta").is_dir())
    prefix = next(parents, None)
    for record in sorted((prefix / "conda-meta").glob("*.json")) if prefix else ():
        with file_errors(), open(record, encoding="utf-8") as file:
            data = json.load(file)
        if os.path.relpath(path, prefix) in data["files"]:
            more = {"build": data["build"], "subdir": data["subdir"]}
            more |= _describe_channel(data.get("url") or "")
            return PackageURL("conda", None, data["name"], data["version"], more)
    return None


def _describe_channel(url: str) -> dict[str, str]:
    """Return the qualifiers of the channel from which a package came, without credentials."""
    parts = urlsplit(url)
    *base, channel, _, file = ["", "", *_TOKEN.sub("", parts.path).split("/")]
    if not channel:
        return {}
    server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{'/'.join(base[2:])}"
    kind = next((kind for kind in ("conda", "tar.bz2") if file.endswith(f".{kind}")), "")
    found = {"channel": channel, "type": kind, "repository_url": server}
    if server.startswith(_CONDA):
        del found["repository_url"]
    return {name: value for name, value in found.items() if value}


def compose(
    made: Provenance,
    libraries: Sequence[Component],
    name: str,
    version: str = "",
    torch: PackageURL | None = None,
) -> bytes:
    """Compose the SBOM of a file, or of a distribution, which has a version.

    The provenance has no subject if the SBOM goes into that. `torch` is the package of the torch
    for which the file was made, where that is not of Python's own index.
    """
    purl = _package_distribution(made, name, version) if version else None
    digest = made.subjects[0].sha256 if made.subjects else ""
    sources = _list_sources(made, torch)
    parts = [*sources, *_list_client(made, shared=bool(libraries)), *libraries]
    epoch = made.resolved.get("SOURCE_DATE_EPOCH")
    tool = _describe("switchml-patch", version=made.builder["switchml-patch"], type="application")
    document = {
        "metadata": {
            "component": _describe("main", purl, name=name, digest=digest),
            "lifecycles": [{"phase": "build"}],
            "tools": {"components": [tool]},
            "timestamp": datetime.fromtimestamp(epoch or 0, timezone.utc).isoformat(),
        },
        "components": [*parts, *_list_surroundings(made, parts)],
        "dependencies": [{"ref": "main", "dependsOn": [one["bom-ref"] for one in parts]}],
        "serialNumber": _NAMESPACE.urn,
    }
    bom: Bom = Bom.from_json(document)  # type: ignore[attr-defined]  # a decorator adds it
    data = json.loads(JsonV1Dot6(bom).output_as_string())
    if epoch is None:
        del data["metadata"]["timestamp"]
    # GitHub attests no SBOM without a serial number. This one follows from the rest.
    data["serialNumber"] = uuid.uuid5(_NAMESPACE, json.dumps(data, sort_keys=True)).urn
    return statement.dump(data)


def _describe(
    ref: str, purl: PackageURL | None = None, *, digest: str = "", file: str = "", uri: str = "",
    **more: object,
) -> Component:  # fmt: skip
    """Describe a component by its reference in the document and its package."""
    digest = files.sha256(file) if file else digest
    named = {"name": purl.name, "version": purl.version, "purl": purl.to_string()} if purl else {}
    found = {
        "bom-ref": ref,
        "type": "library",
        "name": ref,
        "hashes": [{"alg": "SHA-256", "content": digest}] if digest else [],
        "externalReferences": [{"type": "vcs", "url": uri}] if uri else [],
        **named,
        **more,
    }
    return {name: value for name, value in found.items() if value}


def _package_distribution(made: Provenance, name: str, version: str) -> PackageURL:
    """Return the package of a distribution that was built here, which no index has."""
    sources = [one["uri"] for one in made.materials if one["name"] == SOURCE]
    if sources:
        return PackageURL("pypi", None, name, version, {"vcs_url": sources[0]})
    return PackageURL("generic", None, name, version)


def _list_sources(made: Provenance, package: PackageURL | None) -> Iterator[Component]:
    """List PyTorch, by its release and commit, its submodules and the patch."""
    torch, pin = made.resolved.get("torch"), made.request.get("pin")
    commits = [one["commit"] for one in (torch, pin) if one and _COMMIT.fullmatch(one["commit"])]
    uri = f"git+{PYTORCH}@{commits[0]}" if commits else ""
    if torch:
        purl = package or _package_torch(torch["version"], uri)
        yield _describe(SOURCE, purl, uri=uri, description=f"torch {torch['version']}")
    elif pin:
        version = pin["name"].removeprefix("v")
        purl = PackageURL("pypi", None, "torch", version, {"vcs_url": uri})
        yield _describe(SOURCE, purl, uri=uri)
    for one in made.materials:
        if "gitCommit" in one["digest"] and one["name"] != SOURCE and made.kind != origin.CLIENT:
            yield _describe_commit(one)
        elif one["name"].endswith(".patch"):
            yield _describe(one["name"], digest=one["digest"]["sha256"], type="file")


def _package_torch(version: str, uri: str) -> PackageURL:
    """Return the package of a torch that pip installed, by its version.

    A release without a local version is that of PyPI. PyTorch has an index for each of its own
    local versions. Every other torch was built from its commit.
    """
    try:
        parsed = Version(version)
    except InvalidVersion:
        parsed = None
    local = (parsed and parsed.local) or ""
    if _INDEX.fullmatch(local):
        source = {"repository_url": f"{_INDEXES}/{local}"}
    else:
        source = {} if parsed and not local and not parsed.is_prerelease else {"vcs_url": uri}
    return PackageURL("pypi", None, "torch", version, source)


def _describe_commit(one: Mapping[str, Any], **more: Any) -> Component:  # noqa: ANN401
    """Describe the commit of a repository, which is a ResourceDescriptor."""
    uri, commit = one["uri"], one["digest"]["gitCommit"]
    address = uri.removeprefix("git+").rpartition("@")[0]
    owner, name = owner_and_name(address)
    address = _SCP.sub(r"ssh://\1/", address)
    uri = f"git+{address}@{commit}"
    if _GITHUB.match(address):
        purl = PackageURL("github", owner, name, commit)
    else:
        purl = PackageURL("generic", None, name, commit, {"vcs_url": uri})
    return _describe(one["name"], purl, name=name, uri=uri, **more)


def _list_client(made: Provenance, *, shared: bool) -> Iterator[Component]:
    """List the client library by its commit and fixes, and what it was compiled with."""
    digest, nested = made.find_digest(origin.ARCHIVE) or "", made.resolved.get("client")
    client = statement.parse(nested) if nested else made
    if client.kind == origin.CLIENT:
        fixes = [{"type": "defect", "id": one} for one in client.request["fixes"]]
        pedigree = {"patches": [{"type": "unofficial", "resolves": fixes}]} if fixes else {}
        (commit,) = (one for one in client.materials if "gitCommit" in one["digest"])
        yield _describe_commit(commit, digest=digest, pedigree=pedigree)
    elif digest:
        name = "switchml-simulator" if client.kind == origin.SIMULATOR else origin.ARCHIVE
        yield _describe(name, digest=digest)
    for name, version, place in _LINKED.findall("\n".join(client.resolved.get("linked", ()))):
        if place != "packages" or not shared:
            purl = PackageURL("generic", None, name.lower(), version or None)
            found = glob.glob(os.path.join(glob.escape(place), "lib*", _STATIC.get(name, name)))
            yield _describe(name, purl, name=name, file=found[0] if found else "")


def _list_surroundings(made: Provenance, parts: Sequence[Component]) -> Iterator[Component]:
    """List the programs of the build, and the distribution, by which scanners judge packages."""
    for name, text in made.resolved["toolchain"]["programs"].items():
        more = {"name": name, "version": _VERSION.findall(text)[0], "description": text}
        yield _describe(f"program:{name}", type="application", scope="excluded", **more)
    purls = [PackageURL.from_string(one["purl"]) for one in parts if "purl" in one]
    for distro in {one.qualifiers["distro"] for one in purls if one.type == "deb"}:
        name, _, version = distro.partition("-")
        yield _describe("system", name=name, version=version, type="operating-system")
