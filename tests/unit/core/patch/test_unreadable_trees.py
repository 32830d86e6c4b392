from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support import miniature, unprivileged

from patchgen.core.patch import state, tree
from patchgen.core.patch.pins import Pin
from patchgen.errors import FileError
from patchgen.options import resolve

CALLS: dict[str, Callable[[str, Pin], object]] = {
    "status": lambda root, pin: state.inspect(root, (pin,)),
    "apply": lambda root, pin: tree.apply(root, resolve({}, {}, "/x"), (pin,)),
    "revert": lambda root, pin: tree.revert(root, (pin,)),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("which", "advice"), [("file", "; chmod u+r"), ("above", "; chmod u+rx"), ("tree", "")]
)
def test_what_may_not_be_read_is_named_alone(call: str, which: str, advice: str) -> None:
    with unprivileged.directory() as directory:
        root = directory / "tree"
        pin = miniature.write(root)
        file = root / pin.files[0].path
        for path in (directory, *directory.rglob("*")):
            unprivileged.give(path)
        closed: Path = {"file": file, "above": file.parent, "tree": root}[which]
        closed.chmod(0)
        named = re.escape(f"{closed}: Permission denied{advice}")
        try:
            with unprivileged.user(), pytest.raises(FileError, match=f"^{named}"):
                CALLS[call](str(root), pin)
        finally:
            closed.chmod(0o755)
