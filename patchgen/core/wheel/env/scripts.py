"""Post-link scripts: programs that a package brings, to be run in the prefix when it is linked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.errors import ToolError
from patchgen.system.process import Program, capture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.core.wheel.env.lockfile import Package

_MESSAGES = ".messages.txt"
_TAIL = 20  # lines of what a failed script said


def path_of(prefix: str, package: Package) -> str | None:
    """The post-link script of a package that is linked, or None."""
    path = os.path.join(prefix, "bin", f".{package.name}-post-link.sh")
    return path if os.path.isfile(path) else None


def run_script(prefix: str, package: Package, environ: Mapping[str, str]) -> None:
    """Runs a post-link script as conda does; what it has started ends with it, and with us.

    Args:
        prefix: where the package is linked.
        package: its package.
        environ: of the user.

    Raises:
        ToolError: it failed; what it left in .messages.txt for the user is in the message.
    """
    script = path_of(prefix, package)
    if script is None:
        return
    binaries = os.path.join(prefix, "bin")
    path = environ.get("PATH", os.defpath)
    own = {
        **environ,
        "PREFIX": prefix,
        "CONDA_PREFIX": prefix,
        "PKG_NAME": package.name,
        "PKG_VERSION": package.version,
        "PKG_BUILDNUM": package.build.rsplit("_", 1)[-1],
        "PATH": os.pathsep.join([binaries, path]),
    }
    ended = capture(Program(["bash", script], binaries, own, supervised=True), limit=None)
    if ended.code != 0:
        said = ended.err.decode(errors="replace").splitlines()
        tail = "\n".join([f"return code {ended.code}", *said[-_TAIL:]])
        raise ToolError(f"the post-link script of {package.name} failed: {tail}{_messages(prefix)}")


def _messages(prefix: str) -> str:
    try:
        with open(os.path.join(prefix, _MESSAGES), encoding="utf-8", errors="replace") as file:
            return f"\n{file.read().strip()}"
    except FileNotFoundError:
        return ""
