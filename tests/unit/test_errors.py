from __future__ import annotations

import errno
import signal

import pytest

from patchgen.errors import EXIT_CODES, FileError, PatchgenError, file_errors


def families(base: type[PatchgenError]) -> list[type[PatchgenError]]:
    """The classes with a code of their own; a class below one of them shares its code."""
    own = [base] if "exit_code" in vars(base) else []
    return own + [f for child in base.__subclasses__() for f in families(child)]


def test_each_family_has_its_own_documented_code() -> None:
    codes = {family.exit_code: family.meaning for family in families(PatchgenError)}
    assert len(codes) == len(families(PatchgenError))
    ended = {128 + number for number in (signal.SIGHUP, signal.SIGTERM)}
    assert {0, *codes, *ended} == {*EXIT_CODES}
    assert codes.items() <= EXIT_CODES.items()


@pytest.mark.parametrize(
    ("name", "message"),
    [("/x", "/x: No space left"), (b"/x", "/x: No space left"), (None, "No space left")],
)
def test_a_refusal_of_the_file_system_names_the_file(name: object, message: str) -> None:
    with pytest.raises(FileError, match=message), file_errors():
        raise OSError(errno.ENOSPC, "No space left on device", name)
