"""Needs of a rebuild: each as a check that says what of it is not here, and what to do.

A need that differs here is told, and the rebuild goes on; one that is not here at all is required.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from patchgen.core.library import homes, origin
from patchgen.core.source import repository
from patchgen.core.source.commit import Commit
from patchgen.core.torch import probe_torch
from patchgen.core.wheel import provenance, toolchain
from patchgen.errors import PatchgenError, file_errors
from patchgen.extras.install import materials
from patchgen.extras.install.graft import provenance as grafts
from patchgen.extras.lab import simulator
from patchgen.extras.lab.client import checkout, mends
from patchgen.system import files, paths, statement
from patchgen.system.checks import Check
from patchgen.system.git import Git
from patchgen.system.native import tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from patchgen.core.wheel.rebuild.site import Site
    from patchgen.system.statement import Provenance

_DIGITS = 12  # of a SHA-256


def of_client(made: Provenance, site: Site) -> Iterator[Check]:
    """Needs of SwitchML's client library."""
    yield from _tool(made)
    yield _tools(made, site)
    unknown = sorted({*made.request["mends"]} - {mend.id for mend in mends.read_shipped()})
    yield Check("mends", (_other_tool(made, f"has no {', '.join(unknown)}"),) if unknown else ())
    for name, home in made.request["homes"].items():
        missing = () if os.path.isdir(paths.native(home)) else (f"no {home}; install it there",)
        yield Check(name, missing, home)
    commit = made.find_digest(checkout.NAME)
    source = checkout.Origin(site.cache, site.places, commit=str(commit))
    yield _commit(checkout.NAME, commit, lambda: checkout.read_sources(source))


def of_simulator(made: Provenance, site: Site) -> Iterator[Check]:
    """Needs of the simulator."""
    yield from _tool(made)
    yield _tools(made, site)
    if made.find_digest(simulator.NAME) != simulator.digest_source():
        why = _other_tool(made, "has another simulator")
        yield Check("source", (why,), required=False)


def of_plugin(made: Provenance, site: Site) -> Iterator[Check]:
    """Needs of a plugin's wheel."""
    yield from _tool(made)
    yield _tools(made, site)
    yield _torch(made, site)
    yield _library(made, site)


def of_graft(made: Provenance, site: Site) -> Iterator[Check]:
    """Needs of a graft."""
    yield from of_plugin(made, site)
    yield _pin(made, site)
    if site.source is None:
        yield _pytorch(made, site)


def of_wheel(made: Provenance, site: Site) -> Iterator[Check]:
    """Needs of a wheel of PyTorch."""
    yield from _tool(made)
    yield _pin(made, site)
    yield _pytorch(made, site)
    lock = made.find_digest(provenance.LOCK)
    if lock is None:
        yield _python(made, site)
    else:
        yield from _lock(lock, site)
    yield _library(made, site)
    recorded, root = made.resolved["buildPath"], os.path.join(site.work, "build")
    seen = os.path.join(site.place.seen if site.place.fixed else root, "source")
    differs = (
        f"was built at {recorded}, here it will be at {seen}, and the path is in the bytes",
        *(() if site.place.fixed else (f"this system gives no namespaces: {site.place.reason}",)),
    )
    yield Check("path", () if recorded == seen else differs, seen, required=False)


def _tool(made: Provenance) -> Iterator[Check]:
    here = statement.describe_builder()
    recorded = made.builder.get("switchml-patch", "unknown")
    same = recorded == here["switchml-patch"]
    problem = () if same else (_other_tool(made, f"is {here['switchml-patch']}"),)
    yield Check("switchml-patch", problem, recorded, required=False)
    packed = made.builder.get("zlib", "unknown")
    if packed != here["zlib"]:
        why = f"here it is {here['zlib']}, which may compress to other bytes"
        yield Check("zlib", (why,), packed, required=False)


def _other_tool(made: Provenance, here: str) -> str:
    version = made.builder.get("switchml-patch", "unknown")
    return f"this one {here}; install switchml-patch {version}"


def _tools(made: Provenance, site: Site) -> Check:
    """The compiler and what it works with."""
    recorded: Mapping[str, str] = made.resolved["toolchain"]["programs"]
    try:
        found: Any = tools.describe_tools(site.environment(made))
    except PatchgenError as error:
        return Check("compiler", (str(error),), recorded["c++"])
    here = found["programs"]
    problems = [
        f"{name}: was {version}, here {here.get(name, 'there is none')}"
        for name, version in recorded.items()
        if here.get(name) != version
    ]
    if problems:
        problems.append("install what was there, and name the compiler with CXX")
    return Check("compiler", tuple(problems), recorded["c++"], required=False)


def _commit(name: str, commit: str | None, read: Callable[[], object]) -> Check:
    shown = str(commit)[:_DIGITS]
    try:
        read()
    except PatchgenError as error:
        advice = "give a clone with --reference or --mirror"
        return Check(f"{name} commit", (*str(error).splitlines(), advice), shown)
    return Check(f"{name} commit", (), shown)


def _pytorch(made: Provenance, site: Site) -> Check:
    commit = str(made.find_digest(provenance.SOURCE))
    source = repository.root(site.cache, commit)

    def read() -> object:
        with file_errors():
            return Commit(Git(), source, site.cache, site.places).directory("")

    return _commit(grafts.SOURCE, commit, read)


def _pin(made: Provenance, site: Site) -> Check:
    pin = made.request["pin"]
    known = site.find_pin(pin) is not None
    missing = (f"no pin of commit {pin['commit']}; give its file with --pytorch FILE",)
    return Check("pin", () if known else missing, pin["name"])


def _torch(made: Provenance, site: Site) -> Check:
    """The torch that a plugin or a graft is for."""
    torch = made.resolved["torch"]
    about = (
        f"torch {torch['version']} (commit {str(torch['commit'])[:_DIGITS]}) of {torch['python']}"
    )
    python = site.find_interpreter(torch["python"])
    if python is None:
        advice = "give the interpreter that has it with --python PYTHON"
        return Check("torch", (f"no {torch['python']}; {advice}",), about)
    try:
        found = probe_torch(python, {**site.environ, "SWITCHML_GRAFT": "0"}).require_gloo()
    except PatchgenError as error:
        return Check("torch", tuple(str(error).splitlines()), about)
    here = materials.describe_torch(found)
    problems = [
        f"{name}: was {torch.get(name)}, here {here[name]}"
        for name in ("version", "commit", "cuda", "cxx11_abi", "root", "python_version")
        if torch.get(name) != here[name]
    ]
    with file_errors():
        problems += [
            f"{one['name']}: has another SHA-256"
            for one in materials.list_materials(found)
            if made.find_digest(str(one["name"])) != next(iter(one["digest"].values()))  # type: ignore[attr-defined]
        ]
    return Check("torch", tuple(problems), about, required=False)


def _library(made: Provenance, site: Site) -> Check:
    """The client library: at its path, or to be made again."""
    home = paths.native(made.request["homes"]["SWITCHML_HOME"])
    wanted = made.find_digest(origin.ARCHIVE)
    shown = paths.describe(home)
    about = f"{shown}, sha256 {str(wanted)[:_DIGITS]}"
    if is_there(home, wanted):
        return Check("client library", (), about)
    required = True
    if "client" not in made.resolved:
        problems = [f"not there, and no provenance names its origin; put it into {shown} again"]
    elif not os.path.isdir(home):
        problems = [f"will be made again, and shown there: make an empty directory {shown}"]
    elif not site.place.fixed:
        problems = [
            f"can be made again, but not shown there: no namespaces: {site.place.reason}",
            f"rebuild the library alone, and install it in {shown}",
        ]
    else:
        problems = ["not there; it will be made again and shown there"]
        required = False
    return Check("client library", tuple(problems), about, required)


def is_there(home: str, archive: str | None) -> bool:
    """True where a SWITCHML_HOME has an archive with this SHA-256."""
    path = os.path.join(home, homes.ARCHIVE)
    return os.path.isfile(path) and files.sha256(path) == archive


def _python(made: Provenance, site: Site) -> Check:
    """The interpreter and the compiler of a build without a lock."""
    recorded = made.resolved["toolchain"]
    python = site.find_interpreter(recorded["python"])
    if python is None:
        why = f"no {recorded['python']}; give the interpreter with --python PYTHON"
        return Check("python", (why,), recorded["python_version"])
    try:
        here = toolchain.find(python, site.environment(made)).data()
    except PatchgenError as error:
        return Check("python", tuple(str(error).splitlines()), recorded["python_version"])
    problems = tuple(
        f"{name}: was {recorded[name]}, here {here[name]}"
        for name in ("python_version", "soabi", "packages", "programs")
        if recorded[name] != here[name]
    )
    return Check("python", problems, recorded["python_version"], required=False)


def _lock(wanted: str, site: Site) -> Iterator[Check]:
    """The lock and its packages."""
    from patchgen.core.wheel.env import lockfile, packages

    about = f"sha256 {wanted[:_DIGITS]}"
    if not os.path.isfile(site.lock) or files.sha256(site.lock) != wanted:
        why = f"{site.lock}: is not the one; give the lock with sha256 {wanted} with --lock FILE"
        yield Check("lock", (why,), about)
        return
    yield Check("lock", (), about)
    try:
        lock = lockfile.read(site.lock)
        packages.fetch(lock.packages, os.path.join(site.cache, packages.STORE))
    except PatchgenError as error:
        yield Check("packages", tuple(str(error).splitlines()), "of the lock")
        return
    yield Check("packages", (), f"{len(lock.packages)} of the lock")
