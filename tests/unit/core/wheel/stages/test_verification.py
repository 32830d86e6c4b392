"""A wheel that is verified again, and where."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.wheelhouse import INPUTS, drive, make_request

from patchgen.core import verify
from patchgen.core.wheel.check import CRASH
from patchgen.core.wheel.sandbox import HOST, LOOPBACK
from patchgen.core.wheel.stages import verification
from patchgen.core.wheel.values import BuiltWheel, Stage, Verified
from patchgen.core.wheel.workspace import Workspace
from patchgen.errors import CheckError
from patchgen.system.checks import Check

WHEEL = BuiltWheel("torch-1-py3-none-any.whl", "1" * 64, 12)
FINE, WRONG = Check("sums"), Check("sums", ("wrong by 1",))


@dataclass
class Verifying:
    """A work directory, and a verification that takes notes, as does its sandbox."""

    directory: Path
    notes: list[str] = field(default_factory=list)
    finds: Sequence[Check] = (FINE,)

    def leave_network(self) -> str:
        self.notes.append("leave")
        return LOOPBACK

    def hide(self) -> None:
        self.notes.append("hide")

    def find(self, _: object) -> Sequence[Check]:
        self.notes.append("verify")
        return self.finds

    def verify(
        self, wheel: BuiltWheel = WHEEL, toolchain: str = "gcc 12", **request: Any
    ) -> tuple[list[Stage], Verified]:
        workspace = Workspace(replace(make_request(self.directory), **request))
        workspace.__dict__["sandbox"] = self
        tools: Any = SimpleNamespace(identity=toolchain)
        env = replace(INPUTS.env, toolchain=tools)
        return drive(verification.verify_wheel(workspace, env, wheel))


@pytest.fixture
def verifying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verifying:
    made = Verifying(tmp_path)
    monkeypatch.setattr(verify, "verify", made.find)
    return made


@pytest.mark.parametrize(
    "other",
    [
        {"wheel": replace(WHEEL, sha256="2" * 64)},
        {"toolchain": "gcc 13"},
        {"accepted": (CRASH,)},
        {"configs": (__file__,)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_a_verification_depends_on(verifying: Verifying, other: dict[str, Any]) -> None:
    made, verified = verifying.verify()
    assert (made, verified.checks) == ([Stage.VERIFY], ("sums",))
    assert verifying.verify() == ([], verified)
    assert verifying.verify(**other)[0] == [Stage.VERIFY]


def test_a_configuration_that_was_edited_is_verified_with(
    verifying: Verifying, tmp_path: Path
) -> None:
    config = tmp_path / "switchml.cfg"
    config.write_text("[general]\n")
    given: dict[str, Any] = {"configs": (str(config),)}
    verifying.verify(**given)
    assert verifying.verify(**given)[0] == []
    config.write_text("[general]\nnum_workers = 3\n")
    assert verifying.verify(**given)[0] == [Stage.VERIFY]


def test_a_wheel_that_fails_is_verified_again(verifying: Verifying) -> None:
    """Also the one that was fine before."""
    for finds in ((FINE,), (WRONG,), (WRONG,)):
        verifying.finds = finds
        toolchain = "gcc 13" if finds == (WRONG,) else "gcc 12"
        with contextlib.suppress(CheckError):
            verifying.verify(toolchain=toolchain)
    assert verifying.notes.count("verify") == 3
    with pytest.raises(CheckError, match="sums: wrong by 1"):
        verifying.verify(toolchain="gcc 13")
    verifying.finds = (FINE,)
    assert verifying.verify()[0] == [Stage.VERIFY]


def test_ranks_reach_a_switch_of_the_users_alone(verifying: Verifying) -> None:
    assert verifying.verify()[1].network == LOOPBACK
    assert verifying.notes == ["leave", "hide", "verify"]
    verifying.notes.clear()
    assert verifying.verify(configs=(__file__,))[1].network == HOST
    assert verifying.notes == ["hide", "verify"]
