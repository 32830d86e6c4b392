"""Kinds of what can be made again: for each the command that makes it, and what that needs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

from patchgen.core.library import homes, origin
from patchgen.core.wheel import provenance, variables
from patchgen.core.wheel.rebuild import needs
from patchgen.extras.install import plugin
from patchgen.extras.install.graft import provenance as grafts
from patchgen.extras.lab.client import mends
from patchgen.system.native import tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.core.wheel.rebuild.site import Site
    from patchgen.system.checks import Check
    from patchgen.system.statement import Provenance


@dataclass(frozen=True)
class Kind:
    """Kind of files that are made together."""

    command: Callable[[Provenance, Site, str], list[str]]
    """Words of the command that makes them in a directory."""
    find_needs: Callable[[Provenance, Site], Iterator[Check]]
    """Finds what it needs, and whether that is here."""
    product: str = ""
    """Pattern of the main file, in the directory; empty for the name that it had."""


def _flags(made: Provenance) -> list[str]:
    named: Mapping[str, str] = made.request["homes"]
    options = [(f"--{name.lower().replace('_', '-')}", home) for name, home in named.items()]
    flags = [f"--{name.lower()}" for name in made.request["flags"]]
    return [*flags, *(word for option in options for word in option)]


def _client(made: Provenance, site: Site, directory: str) -> list[str]:
    known = {mend.id for mend in mends.read_shipped()}
    without = sorted(known - {*made.request["mends"]})
    abi = made.request["cxx11_abi"]
    return [
        "client", "build", "-o", directory, *_flags(made), "--cache", site.cache,
        *(word for one in without for word in ("--without", one)),
        *([] if abi is None else ["--cxx11-abi", str(int(abi))]),
        *site.place_words,
    ]  # fmt: skip


def _simulator(made: Provenance, _: Site, directory: str) -> list[str]:
    flags = made.request["cxxflags"]
    return [
        "simulator", "install", "-o", directory,
        *(["--debug"] if made.request["debug"] else []),
        *([f"--cxxflags={flags}"] if flags else []),
    ]  # fmt: skip


def _plugin(made: Provenance, site: Site, directory: str) -> list[str]:
    return [
        "plugin", "build", "-o", directory, *_flags(made),
        "--torch", str(site.find_interpreter(made.resolved["torch"]["python"])),
        "--cache", site.fresh_cache,
        *(["--bundle"] if made.request["bundle"] else []),
    ]  # fmt: skip


def _graft(made: Provenance, site: Site, directory: str) -> list[str]:
    pin = site.pytorch or made.request["pin"]["name"]
    source = ["--source", site.source] if site.source else []
    return [
        "graft", "build", "-o", os.path.join(directory, made.subjects[0].name), *_flags(made),
        "--torch", str(site.find_interpreter(made.resolved["torch"]["python"])),
        "--cache", site.fresh_cache, "--pytorch", pin, *source, *site.place_words,
    ]  # fmt: skip


def _wheel(made: Provenance, site: Site, directory: str) -> list[str]:
    request, toolchain = made.request, made.resolved["toolchain"]
    locked = made.find_digest(provenance.LOCK) is not None
    prefix = os.path.join(os.path.dirname(made.resolved["buildPath"]), "env")
    settings = [
        f"{name}={value}"
        for name, value in request["variables"].items()
        if name not in variables.NEUTRAL and value != prefix
        and (locked or name not in tools.COMPILERS)
    ]  # fmt: skip
    given = {
        "--set": settings,
        "--accept": request.get("accepted", ()),
        "--without": request.get("without", ()),
    }
    return [
        "build", "--pytorch", site.pytorch or request["pin"]["name"], *_flags(made),
        "--work", os.path.join(site.work, "build"), "--builddir", directory,
        "--cache", site.cache,
        *(["--lock", site.lock] if locked
          else ["--python", str(site.find_interpreter(toolchain["python"]))]),
        *(word for option, values in given.items() for one in values for word in (option, one)),
        *site.place_words,
    ]  # fmt: skip


KINDS = {
    origin.CLIENT: Kind(_client, needs.of_client, homes.ARCHIVE),
    origin.SIMULATOR: Kind(_simulator, needs.of_simulator, homes.ARCHIVE),
    plugin.KIND: Kind(_plugin, needs.of_plugin, "*.whl"),
    grafts.KIND: Kind(_graft, needs.of_graft),
    provenance.KIND: Kind(_wheel, needs.of_wheel, "*.whl"),
}
"""Kinds by their names in a provenance."""
