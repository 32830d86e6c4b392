from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from patchgen.errors import FileError, ToolError
from patchgen.system import plots


def draw(path: Path, panels: int = 1) -> bytes:
    with plots.png(str(path), panels, "title") as axes:
        assert len(axes) == panels
        for panel in axes:
            for index in range(3):
                panel.plot([1, 2, 3], [index, 2, 1], label=str(index), **plots.style(index))
            plots.legend(panel)
    return path.read_bytes()


def test_a_png_of_a_size_that_prints(tmp_path: Path) -> None:
    content = draw(tmp_path / "plot.png", panels=2)
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert (width, height) == (1728, 672)
    assert [path.name for path in tmp_path.iterdir()] == ["plot.png"]


def test_the_user_s_own_settings_change_nothing(tmp_path: Path) -> None:
    mpl = pytest.importorskip("matplotlib", reason="comes with the extra `plots`")
    expected = draw(tmp_path / "plot.png")
    with mpl.rc_context({"lines.linewidth": 9, "font.size": 30, "axes.grid": False}):
        assert draw(tmp_path / "plot.png") == expected
        assert mpl.rcParams["lines.linewidth"] == 9


def test_a_title_may_be_anything(tmp_path: Path) -> None:
    for title in ("a $ b", "$x^$", "日本語", "long " * 100):
        with plots.png(str(tmp_path / "plot.png"), title=title) as (axes,):
            axes.plot([1, 2])
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_lines_differ_without_colour() -> None:
    looks = [plots.style(index) for index in range(8)]
    assert len({(str(look["linestyle"]), look["marker"]) for look in looks}) == 8
    assert len({look["color"] for look in looks}) == 8
    assert plots.style(8)["color"] == plots.style(0)["color"]


def test_a_failure_leaves_the_old_plot(tmp_path: Path) -> None:
    path = tmp_path / "plot.png"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="no data"), plots.png(str(path)):
        raise ValueError("no data")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["plot.png"]
    with pytest.raises(FileError, match="No such file or directory"):
        draw(tmp_path / "none" / "plot.png")


def test_what_draws_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    plots.require()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ToolError, match=r"matplotlib: not installed; .*install 'matplotlib>="):
        plots.require()
