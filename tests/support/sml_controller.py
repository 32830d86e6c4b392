"""SwitchML's own controller before a software switch, fixed or not."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen.extras.client import checkout, fixes
from patchgen.extras.lab import lab
from patchgen.system.background import beside
from patchgen.system.ports import free_port
from patchgen.system.process import Program
from support import real_client

PROGRAM = Path(__file__).parents[1] / "payload" / "sml_controller.py"
PYTHON = "/usr/bin/python3"
"""Debian's, whose protobuf and gRPC fit to its protoc."""
_READY = 30.0  # seconds


def make_controller(directory: Path, *without: str) -> None:
    """Write the controller's modules to an empty directory, without some fixes."""
    needed = subprocess.run([PYTHON, "-c", "import grpc.aio, google.protobuf"], check=False)
    plugin = shutil.which("grpc_python_plugin")
    if needed.returncode != 0 or plugin is None:
        pytest.skip("needs python3-grpcio, python3-protobuf and protobuf-compiler-grpc")
    sources = real_client.sources(directory / "cache", fixes.CONTROLLER)
    chosen = fixes.choose(without, fixes.read_shipped(fixes.CONTROLLER))
    for path, content in {**sources, **fixes.apply(chosen, sources)}.items():
        (directory / Path(path).name).write_bytes(content)
    (proto,) = (Path(path).name for path in sources if path.startswith(checkout.PROTOS))
    given = [f"-I{directory}", f"--python_out={directory}", f"--grpc_out={directory}"]
    tool = f"--plugin=protoc-gen-grpc={plugin}"
    subprocess.run(["protoc", *given, tool, str(directory / proto)], check=True)


def command(directory: Path, address: str, switch: str) -> list[str]:
    """Return the command of a controller that listens at an address, before that of a switch."""
    return [PYTHON, str(PROGRAM), str(directory), address, switch]


@contextlib.contextmanager
def controlled_lab(switch: str, controller: Path, workers: int = 2) -> Iterator[lab.Lab]:
    """Run a switch whose workers use SwitchML's controller instead of ours."""
    with lab.running(switch, workers, lab.Faults()) as running:
        port = free_port()
        words = command(controller, f"127.0.0.1:{port}", f"127.0.0.1:{running.port}")
        with beside(Program(words), limit=_READY) as program:
            assert program.line == "ready"
            yield dataclasses.replace(running, port=port)
