"""The client library of SWITCHML_HOME, as far as a build needs it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from patchgen.core.library import archive, homes
from patchgen.core.library.archive import Archive
from patchgen.core.wheel.check.advice import reason
from patchgen.options import Options
from patchgen.system.paths import describe, native

_MAKE = (
    "make one with switchml-patch client build, name another place with --switchml-home, "
    "or take the simulator: switchml-patch simulator install -o DIR"
)


@dataclass(frozen=True)
class Client:
    """The client library of SWITCHML_HOME."""

    archive: Archive | None
    """The archive; None where it cannot be used."""
    headers: bool
    """True where the home has them."""
    problems: tuple[str, ...] = ()
    """Problems of the home, and what to do about them, a line each."""


def find_client(options: Options) -> Client:
    """Reads SWITCHML_HOME."""
    path = archive.path(options.switchml_home)
    header = f"{native(options.switchml_home)}/{homes.HEADER}"
    wrong = []
    if not os.path.isfile(header):
        wrong.append(f"no {describe(header)}; {_MAKE}")
    found = None
    try:
        found = archive.read(options.switchml_home)
    except FileNotFoundError:
        wrong.append(f"no {describe(path)}" + ("" if wrong else f"; {_MAKE}"))
    except OSError as error:
        wrong.append(f"{describe(path)}: {reason(error)}; it has to be a file that can be read")
    except archive.ArchiveError as error:
        wrong.append(f"{describe(path)}: {error.reason}; build the client library again")
    return Client(found, os.path.isfile(header), tuple(wrong))
