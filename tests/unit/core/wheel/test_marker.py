"""The marker of a prefix."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import disks

from patchgen.core.wheel.conda import marker
from patchgen.core.wheel.conda.marker import Marker


@pytest.mark.parametrize(
    ("made", "serves"),
    [
        (Marker("1"), {"/work/env"}),
        (Marker("1", whole=True, named="/build/env"), {"/build/env"}),
        (Marker("2", whole=True), set()),
        (Marker("2", named="/build/env"), set()),
    ],
)
def test_a_prefix_serves_its_lock_at_the_path_in_its_files(made: Marker, serves: set[str]) -> None:
    seen = ("/work/env", "/build/env")
    assert {named for named in seen if made.serves("1", "/work/env", named)} == serves


def test_a_marker_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Marker("1", named="/build/env")
    marker.write(str(tmp_path), old)
    disks.fill(monkeypatch)
    with pytest.raises(OSError, match="No space left"):
        marker.write(str(tmp_path), Marker("1", whole=True))
    assert marker.read(str(tmp_path)) == old
