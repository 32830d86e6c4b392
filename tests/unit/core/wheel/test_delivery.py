"""Files beside a wheel."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from support.wheelhouse import INPUTS, PIN, make_request

from patchgen.core.recipes import Recipe, read
from patchgen.core.wheel import delivery
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.values import BuiltWheel, Objects, Verified
from patchgen.core.wheel.workspace import Workspace
from patchgen.system import statement


def lines(version: str, recipe: Recipe) -> list[str]:
    text = delivery.compose_constraints(version, recipe)
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_constraints_name_this_torch_and_what_it_runs_with() -> None:
    recipe = read(PIN)
    assert lines("1.7.1+switchml", recipe) == ["torch==1.7.1+switchml", "numpy<1.24"]
    assert lines("1.7.1+switchml.rdma", Recipe()) == ["torch==1.7.1+switchml.rdma"]


VERIFIED = b"verified"


@pytest.fixture
def wanted(tmp_path: Path) -> BuildRequest:
    """A request whose wheel is verified; another one is where it goes."""
    wanted = make_request(tmp_path)
    for directory, content in ((wanted.wheels, VERIFIED), (wanted.output, b"another")):
        Path(directory).mkdir(parents=True)
        Path(directory, "a.whl").write_bytes(content)
    return wanted


def deliver(wanted: BuildRequest) -> None:
    digest = hashlib.sha256(VERIFIED).hexdigest()
    built: Any = SimpleNamespace(
        inputs=INPUTS,
        objects=Objects("", "none of compile"),
        wheel=BuiltWheel("a.whl", digest, 8, "none of wheel"),
        verified=Verified((), "none of verify"),
    )
    delivery.deliver(Workspace(wanted), built)


def test_another_wheel_of_that_name_is_replaced(wanted: BuildRequest) -> None:
    deliver(wanted)
    assert Path(wanted.output, "a.whl").read_bytes() == VERIFIED


def test_no_half_of_a_wheel_is_where_it_goes(
    wanted: BuildRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(_: object, target: IO[bytes]) -> None:
        target.write(b"ver")
        target.flush()
        assert Path(wanted.output, "a.whl").read_bytes() == b"another"

    monkeypatch.setattr("shutil.copyfileobj", copy)
    deliver(wanted)


def test_files_beside_an_older_wheel_are_replaced(wanted: BuildRequest) -> None:
    deliver(wanted)
    files = [path for path in Path(wanted.output).iterdir() if path.suffix != ".whl"]
    assert len(files) == 3
    contents = [path.read_bytes() for path in files]
    for path in files:
        path.write_text("older")
    deliver(wanted)
    assert [path.read_bytes() for path in files] == contents


def test_the_provenance_names_the_network_of_each_stage(wanted: BuildRequest) -> None:
    deliver(wanted)
    found = statement.read(str(Path(wanted.output, "a.whl.provenance.json"))).resolved
    network = found["isolation"]["network"]
    assert network == {name: f"none of {name}" for name in ("compile", "wheel", "verify")}


def test_domain_libraries_are_of_the_recipe() -> None:
    first, second = delivery.list_commands("py", "/w/a.whl", "/w/c.txt", read(PIN))
    assert first == ("py", "-m", "pip", "install", "--force-reinstall", "--no-deps", "/w/a.whl")
    assert second[-4:] == ("--constraint", "/w/c.txt", "torch", "torchvision==0.8.2")
    assert delivery.list_commands("py", "a", "c", Recipe())[1][-1] == "torch"
