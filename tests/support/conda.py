"""Channels of real, tiny packages: archives, and an index by rattler's own indexer.

conda-lock and rattler solve and install them. Only the packages are made here, since no public
channel has one that is broken, withdrawn or changed on purpose, and conda-build needs a conda.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass, field
from typing import Any

import pytest

if sys.version_info < (3, 10):
    pytest.skip("conda-lock and py-rattler need Python 3.10", allow_module_level=True)

from collections.abc import Mapping, Sequence
from pathlib import Path

import zstandard
from click.testing import CliRunner
from rattler.index import index_fs

from patchgen.cli import main
from patchgen.core.wheel.conda import lockfile, marker

PLATFORM = "linux-64"
PLACEHOLDER = "/placeholder" + "_placehold" * 20
FIXED_TIME = 1_600_000_000


@dataclass(frozen=True)
class Package:
    """Content of a package; a file is text, or a link target in a tuple of one."""

    name: str
    version: str = "1.0"
    build_number: int = 0
    build_string: str = "h0"
    depends: tuple[str, ...] = ()
    files: Mapping[str, str | tuple[str]] = field(default_factory=dict)
    subdir: str = PLATFORM
    noarch: str | None = None
    old_format: bool = False

    @property
    def build(self) -> str:
        return f"{self.build_string}_{self.build_number}"

    @property
    def file_name(self) -> str:
        ending = "tar.bz2" if self.old_format else "conda"
        return f"{self.name}-{self.version}-{self.build}.{ending}"

    def paths_json(self) -> dict[str, Any]:
        paths = []
        for name, content in self.files.items():
            data = content.encode() if isinstance(content, str) else b""
            entry = {
                "_path": name,
                "path_type": "hardlink" if isinstance(content, str) else "softlink",
                "sha256": hashlib.sha256(data).hexdigest(),
                "size_in_bytes": len(data),
            }
            if isinstance(content, str) and PLACEHOLDER in content:
                entry |= {"file_mode": "text", "prefix_placeholder": PLACEHOLDER}
            paths.append(entry)
        return {"paths": paths, "paths_version": 1}

    def info(self) -> dict[str, str | tuple[str]]:
        known = {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": self.build_number,
            "depends": list(self.depends),
            "subdir": self.subdir,
            "timestamp": FIXED_TIME * 1000,
        }
        link = {"noarch": {"type": self.noarch}, "package_metadata_version": 1}
        return {
            "info/index.json": json.dumps(known | ({"noarch": self.noarch} if self.noarch else {})),
            "info/paths.json": json.dumps(self.paths_json()),
            "info/about.json": json.dumps({"summary": f"{self.name}, for tests"}),
            "info/files": "".join(f"{name}\n" for name in self.files),
            **({"info/link.json": json.dumps(link)} if self.noarch else {}),
        }

    def archive(self) -> bytes:
        if self.old_format:
            return _tar({**self.info(), **self.files}, "w:bz2")
        compress = zstandard.ZstdCompressor().compress
        stem = self.file_name.removesuffix(".conda")
        parts = {
            "metadata.json": json.dumps({"conda_pkg_format_version": 2}).encode(),
            f"info-{stem}.tar.zst": compress(_tar(self.info(), "w")),
            f"pkg-{stem}.tar.zst": compress(_tar(self.files, "w")),
        }
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as bundle:
            for name, data in parts.items():
                bundle.writestr(zipfile.ZipInfo(name), data)
        return out.getvalue()


def _tar(files: Mapping[str, str | tuple[str]], mode: Any) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.GNU_FORMAT) as bundle:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.mtime = FIXED_TIME
            if isinstance(content, tuple):
                member.type, member.linkname = tarfile.SYMTYPE, content[0]
                bundle.addfile(member)
                continue
            data = content.encode()
            member.size = len(data)
            member.mode = 0o755 if name.startswith("bin/") else 0o644
            bundle.addfile(member, io.BytesIO(data))
    return out.getvalue()


@dataclass(frozen=True)
class Channel:
    root: Path

    @property
    def url(self) -> str:
        return self.root.as_uri()

    @classmethod
    def holding(cls, root: Path, *packages: Package) -> Channel:
        channel = cls(root)
        channel.add(*packages)
        return channel

    def path(self, package: Package) -> Path:
        return self.root / package.subdir / package.file_name

    def add(self, *packages: Package) -> None:
        """Write the packages, and index the channel."""
        for subdir in (PLATFORM, "noarch"):
            (self.root / subdir).mkdir(parents=True, exist_ok=True)
        for package in packages:
            self.path(package).write_bytes(package.archive())
        # A compressed index takes a hundred times as long: it is for large channels.
        asyncio.run(index_fs(self.root, write_zst=False, write_shards=False, force=True))


PROGRAM = "from patchgen.__main__ import main; main()"


@dataclass(frozen=True)
class Site:
    """A directory with an environment file, its lock and a prefix, and the commands run in it."""

    root: Path

    @classmethod
    def new(cls, directory: Path) -> Site:
        root = directory / "si te"
        root.mkdir()
        return cls(root)

    @property
    def file(self) -> Path:
        return self.root / "environment.yml"

    @property
    def lock_file(self) -> Path:
        return self.root / "conda-lock.yml"

    @property
    def prefix(self) -> Path:
        return self.root / "pre fix"

    @property
    def cache(self) -> Path:
        return self.root / "ca che"

    def ask(self, channels: Sequence[str], specs: Sequence[str], **own: Any) -> None:
        data = {"channels": list(channels), "dependencies": list(specs)}
        self.file.write_text(json.dumps(data | ({"x-switchml": own} if own else {})))

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        """Run `switchml-patch env ...` and return its output."""
        result = CliRunner().invoke(main, ["env", *map(str, arguments)], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result.output

    def start(self, *arguments: str | Path, program: str = PROGRAM) -> subprocess.Popen[str]:
        """Run the command in a process of its own."""
        command = [sys.executable, "-c", program, "env", *map(str, arguments)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ})

    def lock(self, *arguments: str, code: int = 0) -> str:
        own = ("lock", "-f", self.file, "-o", self.lock_file, "--cache", self.cache)
        return self.run(*own, *arguments, code=code)

    def relock(
        self, channels: Sequence[str], specs: Sequence[str], code: int = 0, **own: Any
    ) -> str:
        """Write the environment file and lock it; return the command's output."""
        self.ask(channels, specs, **own)
        return self.lock(code=code)

    def create_arguments(
        self, prefix: Path | None = None, cache: Path | None = None
    ) -> tuple[str | Path, ...]:
        where = ("-o", prefix or self.prefix, "--lock", self.lock_file)
        return ("create", *where, "--cache", cache or self.cache)

    def create(
        self,
        *arguments: str,
        prefix: Path | None = None,
        cache: Path | None = None,
        code: int = 0,
    ) -> str:
        return self.run(*self.create_arguments(prefix, cache), *arguments, code=code)

    def compare(self, prefix: Path | None = None) -> None:
        """Compare a finished prefix with the lock: its packages, and the hashes of all files."""
        prefix = prefix or self.prefix
        records = [json.loads(path.read_text()) for path in prefix.glob("conda-meta/*.json")]
        found = {record["name"]: record["sha256"] for record in records}
        assert found == {name: package.sha256 for name, package in self.locked().items()}
        for entry in (one for record in records for one in record["paths_data"]["paths"]):
            path = prefix / entry["_path"]
            assert path.is_symlink() or path.is_file()
            wanted = entry.get("sha256_in_prefix") or entry.get("sha256")
            if wanted and entry["path_type"] == "hardlink":
                assert hashlib.sha256(path.read_bytes()).hexdigest() == wanted, path
        assert json.loads((prefix / marker.NAME).read_text())["whole"]

    def locked(self) -> dict[str, lockfile.Package]:
        return {package.name: package for package in lockfile.read(str(self.lock_file)).packages}

    def files(self) -> set[str]:
        """Return the files of the prefix, without conda's records."""
        found = (path.relative_to(self.prefix) for path in self.prefix.rglob("*"))
        return {
            str(path)
            for path in found
            if path.parts[0] not in {"conda-meta", "CACHEDIR.TAG"}
            and not (self.prefix / path).is_dir()
        }
