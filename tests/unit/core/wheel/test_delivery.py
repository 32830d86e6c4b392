"""Files beside a wheel."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.wheelhouse import PIN, PROVENANCE, make_request

from patchgen.core.recipes import Recipe, read
from patchgen.core.wheel import delivery
from patchgen.core.wheel.values import BuiltWheel
from patchgen.core.wheel.workspace import Workspace


def lines(version: str, recipe: Recipe) -> list[str]:
    text = delivery.compose_constraints(version, recipe)
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_constraints_name_this_torch_and_what_it_runs_with() -> None:
    recipe = read(PIN)
    assert lines("1.7.1+switchml", recipe) == ["torch==1.7.1+switchml", "numpy<1.24"]
    assert lines("1.7.1+switchml.rdma", Recipe()) == ["torch==1.7.1+switchml.rdma"]


def test_another_wheel_of_that_name_is_replaced(tmp_path: Path) -> None:
    wanted = make_request(tmp_path)
    for directory, content in ((wanted.wheels, b"verified"), (wanted.output, b"another")):
        Path(directory).mkdir(parents=True)
        Path(directory, "a.whl").write_bytes(content)
    digest = hashlib.sha256(b"verified").hexdigest()
    values = {name: getattr(PROVENANCE, name) for name in ("source", "env", "patch")}
    online = SimpleNamespace(network="host")
    wheel = BuiltWheel("a.whl", digest, 8)
    built: Any = SimpleNamespace(wheel=wheel, objects=online, verified=online, **values)
    delivery.deliver(Workspace(wanted), built)
    assert Path(wanted.output, "a.whl").read_bytes() == b"verified"


def test_domain_libraries_are_of_the_recipe() -> None:
    first, second = delivery.list_commands("py", "/w/a.whl", "/w/c.txt", read(PIN))
    assert first == ("py", "-m", "pip", "install", "--force-reinstall", "--no-deps", "/w/a.whl")
    assert second[-4:] == ("--constraint", "/w/c.txt", "torch", "torchvision==0.8.2")
    assert delivery.list_commands("py", "a", "c", Recipe())[1][-1] == "torch"
