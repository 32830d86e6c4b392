"""What the switch is compiled with, where something of it is missing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from patchgen import switch
from patchgen.errors import ToolError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

PROTOBUF = "Name: protobuf\nDescription: here\nVersion: 3\nLibs: -lprotobuf\n"


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PKG_CONFIG_LIBDIR", str(tmp_path))
    monkeypatch.delenv("PKG_CONFIG_PATH", raising=False)
    for missing in (
        "protobuf (Debian: libprotobuf-dev; conda: libprotobuf)",
        "gRPC (Debian: libgrpc++-dev; conda: grpc-cpp)",
    ):
        with pytest.raises(ToolError) as raised:
            switch.build(str(tmp_path / "cache"), os.environ)
        told = f"the software switch needs {missing}, which is not installed"
        assert str(raised.value) == told
        (tmp_path / "protobuf.pc").write_text(PROTOBUF)
