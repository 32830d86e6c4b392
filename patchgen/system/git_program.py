"""The program that is called git, which has to be one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchgen.errors import ToolError
from patchgen.system.objects import blob_id
from patchgen.system.process import LIMIT, Program, capture

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONTENT = b"switchml"
_SHOWN = 60  # characters


def prove(environ: Mapping[str, str]) -> None:
    """Lets git name an object, since all that it says later is believed.

    Raises:
        ToolError: git is missing, or gives another answer.
    """
    # A directory of the user's may be a repository that git cannot read.
    asked = Program(["git", "hash-object", "--stdin"], "/", environ, _CONTENT, for_git=True)
    ended = capture(asked, limit=LIMIT)
    said = (ended.out + ended.err).decode(errors="replace").strip()
    if ended.code or ended.out.decode(errors="replace").strip() != blob_id(_CONTENT):
        raise ToolError(
            f"git: hash-object gives {said[:_SHOWN]!r}, as no git does; "
            "see which program `git` is on PATH"
        )
