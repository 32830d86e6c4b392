"""clang knows which mutex of the plugin guards what, but for mutexes that guard an order."""

from __future__ import annotations

from pathlib import Path

from support.thread_safety import find_unchecked_locks, takes_locks

from patchgen.core.patch import render
from patchgen.core.torch import Torch
from patchgen.extras.install.plugin import project, target
from patchgen.options import resolve


def test_each_lock_is_missed(probed: Torch, clang: list[str], tmp_path: Path) -> None:
    files = project.sources(resolve({}, {}, "/nowhere"), target.inspect(probed, {}))
    written = {tmp_path / name: content.decode() for name, content in files.items()}
    for path, content in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    sources = {path: written[path] for path in sorted((tmp_path / "src").glob("*.cpp"))}
    locking = {
        path: source
        for path, source in sources.items()
        if takes_locks(source) and "GUARDED_BY" in written[path.with_suffix(".hpp")]
    }
    assert locking
    unit = tmp_path / "unit.cpp"
    unit.write_text("".join(f'#include "{path}"\n' for path in locking), encoding="utf-8")
    places = (tmp_path, tmp_path / "src", tmp_path / render.PROJECT / "src")
    options = [*clang[1:], *(f"-I{place}" for place in places), '-DSWITCHML_PLUGIN_DIGEST=""']
    assert find_unchecked_locks(locking, unit, *options) == []
