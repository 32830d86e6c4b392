"""SwitchML's own controller before a software switch, mended or not."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patchgen.client import checkout, mends
from patchgen.system.companion import beside
from patchgen.system.ports import free_port
from patchgen.system.process import Program
from support import real_client

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).parents[1] / "payload" / "sml_controller.py"
PYTHON = "/usr/bin/python3"
"""Debian's, whose protobuf and gRPC fit to its protoc."""
_READY = 30.0  # seconds


def make_controller(directory: Path, *without: str) -> None:
    """Fills a directory with the controller's modules.

    Args:
        directory: an empty one.
        without: mends to leave out.
    """
    needed = subprocess.run([PYTHON, "-c", "import grpc.aio, google.protobuf"], check=False)
    plugin = shutil.which("grpc_python_plugin")
    if needed.returncode != 0 or plugin is None:
        pytest.skip("needs python3-grpcio, python3-protobuf and protobuf-compiler-grpc")
    sources = real_client.sources(directory / "cache", mends.CONTROLLER)
    chosen = mends.choose(without, mends.read_shipped(mends.CONTROLLER))
    for path, content in {**sources, **mends.apply(chosen, sources)}.items():
        (directory / Path(path).name).write_bytes(content)
    (proto,) = (Path(path).name for path in sources if path.startswith(checkout.PROTOS))
    given = [f"-I{directory}", f"--python_out={directory}", f"--grpc_out={directory}"]
    tool = f"--plugin=protoc-gen-grpc={plugin}"
    subprocess.run(["protoc", *given, tool, str(directory / proto)], check=True)


@contextlib.contextmanager
def controlling(directory: Path, switch: int) -> Iterator[int]:
    """Runs a controller while the block lasts; gives its port.

    Args:
        directory: that of `make_controller`.
        switch: port of the software switch's controller.
    """
    port = free_port()
    command = [PYTHON, str(PROGRAM), str(directory), str(port), f"127.0.0.1:{switch}"]
    with beside(Program(command), limit=_READY) as companion:
        assert companion.line == "ready"
        yield port
