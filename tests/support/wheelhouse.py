"""Small wheels, and what one was made from."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, TypeVar

from patchgen.core.library import origin
from patchgen.core.patch import patches, pins
from patchgen.core.patch.pins import Pin
from patchgen.core.patch.state import Overall, State
from patchgen.core.source import Source
from patchgen.core.wheel import provenance
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.sandbox import Sandbox
from patchgen.core.wheel.values import BuildEnvironment, Patched, Stage, WheelInputs
from patchgen.core.wheel.workspace import Making
from patchgen.options import Options, resolve
from patchgen.system import statement
from patchgen.system.files import Artifact
from patchgen.system.statement import Provenance

WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
COMMIT = "57bffc3a8e4fee0cce31e1ff1f662ccf7b16db57"
GLOO = "3dc0328fe6a9d47bd47c0c6ca145a0d8a21845c6"
(PIN,) = (pin for pin in pins.shipped() if pin.commit == COMMIT)
OPTIONS = resolve({"dpdk": True, "switchml_home": "/opt/s\udcff"}, {}, "/opt")
T = TypeVar("T")
COMMITS = {"third_party/gloo": GLOO, "": COMMIT}
TOOLCHAIN = {"python_version": "3.9.2", "programs": {"cmake": "cmake version 3.18.4"}}


def make_inputs(
    *,
    commits: Mapping[str, str] = COMMITS,
    toolchain: Mapping[str, object] = TOOLCHAIN,
    variables: Mapping[str, str] = {"USE_CUDA": "0"},
    client: str | None = "3" * 64,
    lock: str | None = "4" * 64,
    left_out: Sequence[str] = (),
    options: Options = OPTIONS,
    pin: Pin = PIN,
    **request: Any,
) -> WheelInputs:
    """The inputs of a wheel, with these values instead of its own."""
    tree = State("/build/source", Overall.PATCHED, pin, options, (), (), (), None)
    source = Source(
        "/build/source", PIN, tree, 1607370004, commits,
        {
            "third_party/gloo": "https://github.com/facebookincubator/gloo",
            "": "https://github.com/pytorch/pytorch.git",
        },
        left_out, {},
    )  # fmt: skip
    linked = (
        [{**statement.describe_file(origin.ARCHIVE, client), "annotations": {"simulator": True}}]
        if client
        else []
    )
    patch = patches.make(options, pin)
    tools: Any = make_dataclass("Tools", toolchain)(**toolchain)
    return WheelInputs(
        BuildRequest(
            patch,
            work="/w",
            output="",
            python=None,
            lock="",
            environment_file="",
            environ={},
            **request,
        ),
        Sandbox("/w", "/build"),
        source,
        BuildEnvironment("python", lock and "of its packages", lock, tools, variables, {}),
        Patched(patch, linked),
    )


INPUTS = make_inputs()
WHEEL_FILE = Artifact("torch-1.7.1+switchml.dpdk-cp39-cp39-linux_x86_64.whl", 17, "1" * 64)


def describe(inputs: WheelInputs = INPUTS) -> Provenance:
    """The provenance of a wheel that is made from these inputs."""
    return provenance.describe(inputs, WHEEL_FILE, {"compile": "loopback"})


def make_request(directory: Path) -> BuildRequest:
    """A request for a build in a directory, with an interpreter of the user."""
    places = ("work", "output", "conda-lock.yml", "environment.yml", "cache")
    work, output, lock, environment, cache = (f"{directory}/{place}" for place in places)
    patch = patches.make(resolve({}, {}, str(directory)), PIN)
    return BuildRequest(patch, work, output, "/usr/bin/python3", lock, environment, {}, cache=cache)


def drive(making: Making[T]) -> tuple[list[Stage], T]:
    """Run stages to their end; return those that had something to make, and their result."""
    made: list[Stage] = []
    while True:
        try:
            made.append(next(making))
        except StopIteration as end:
            return made, end.value


def digest(content: bytes, algorithm: str = "sha256") -> str:
    raw = hashlib.new(algorithm, content).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}"


@dataclass(frozen=True)
class Entry:
    name: str
    content: bytes = b""
    mode: int = 0o100644
    date: tuple[int, int, int, int, int, int] = (2001, 2, 3, 4, 5, 6)
    method: int = zipfile.ZIP_DEFLATED


@dataclass(frozen=True)
class Fake:
    """A wheel that pip installs; RECORD is written last, over the entries."""

    name: str
    version: str
    requires: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def info(self) -> str:
        return f"{self.name}-{self.version}.dist-info"

    @property
    def record(self) -> str:
        return f"{self.info}/RECORD"

    def entries(self) -> list[Entry]:
        needs = "".join(f"Requires-Dist: {line}\n" for line in self.requires)
        metadata = f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n{needs}"
        texts = {f"{self.name}.py": f"__version__ = {self.version!r}\n", **self.files}
        texts.update({f"{self.info}/METADATA": metadata, f"{self.info}/WHEEL": WHEEL})
        return [Entry(name, text.encode()) for name, text in texts.items()]

    def write(self, directory: Path, more: Sequence[Entry] = ()) -> Path:
        directory.mkdir(exist_ok=True)
        path = directory / f"{self.name}-{self.version}-py3-none-any.whl"
        entries = [*self.entries(), *more]
        return zipped(path, [*entries, Entry(self.record, listing(entries, self.record))])


def listing(entries: Sequence[Entry], record: str) -> bytes:
    rows = [f"{one.name},{digest(one.content)},{len(one.content)}" for one in entries]
    return "\r\n".join([*rows, f"{record},,", ""]).encode()


def zipped(path: Path, entries: Sequence[Entry]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.name, entry.date)
            info.compress_type = entry.method
            info.external_attr = entry.mode << 16
            archive.writestr(info, entry.content)
    return path
