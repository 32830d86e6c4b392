"""Progress of a compile, by the files that ninja has written."""

from __future__ import annotations

import logging
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from patchgen.core.wheel import forecast
from patchgen.core.wheel.forecast import Forecast, Ran, progress, steps

if TYPE_CHECKING:
    from pathlib import Path

NINJA = """\
rule CXX_COMPILER__torch_cpu_Release
  command = touch $out
rule C_COMPILER__tiny_
  command = touch $out
rule CXX_SHARED_LIBRARY_LINKER__torch_cpu_Release
  command = touch $out
rule CUSTOM_COMMAND
  command = touch $out also.h
build caffe2/a.cpp.o: CXX_COMPILER__torch_cpu_Release a.cpp || made.h
build caffe2/b.cpp.o: CXX_COMPILER__torch_cpu_Release b.cpp | used.h || $
    made.h
build tiny.c.o: C_COMPILER__tiny_ tiny.c
build lib/libtorch_cpu.so: CXX_SHARED_LIBRARY_LINKER__torch_cpu_Release caffe2/a.cpp.o $
    caffe2/b.cpp.o tiny.c.o
  FLAGS = a: b
build made.h made.cpp | also.h: CUSTOM_COMMAND template
build test.cpp.o: CXX_COMPILER__torch_cpu_Release test.cpp
build all: phony lib/libtorch_cpu.so
build install.util: CUSTOM_COMMAND all
build install: phony install.util
"""
KINDS = {
    "caffe2/a.cpp.o": "CXX",
    "caffe2/b.cpp.o": "CXX",
    "tiny.c.o": "C",
    "lib/libtorch_cpu.so": "link",
    "made.h": "other",
    "install.util": "other",
}


def test_the_steps_of_a_target_by_their_kind() -> None:
    assert steps(NINJA) == KINDS
    assert steps(NINJA, "tiny.c.o") == {"tiny.c.o": "C"}
    assert steps("") == {}


@pytest.mark.skipif(shutil.which("ninja") is None, reason="needs ninja")
def test_ninja_itself_counts_as_many(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also when some were done before, and when they are done again."""
    (tmp_path / "build.ninja").write_text(NINJA)
    for name in ("a.cpp", "b.cpp", "used.h", "tiny.c", "template", "test.cpp"):
        (tmp_path / name).touch()

    def run(target: str) -> list[tuple[int, int]]:
        caplog.clear()
        followed = Forecast(str(tmp_path), 1)
        command = ["ninja", "-v", target]
        for line in subprocess.check_output(command, cwd=tmp_path).splitlines(keepends=True):
            followed.read(line)
        return [(one.__dict__["done"], one.__dict__["total"]) for one in caplog.records]

    with caplog.at_level(logging.INFO, "patchgen"):
        run("caffe2/a.cpp.o")  # and made.h
        assert run("install") == [(3, 6), (4, 6), (5, 6), (6, 6)]
        (tmp_path / "tiny.c").write_text("changed")
        assert run("install")[-1] == (6, 6)


def test_generated_files_count_for_what_they_take() -> None:
    kinds = {f"g{n}": "other" for n in range(200)} | {f"c{n}": "CXX" for n in range(1000)}
    now = [Ran(f"g{n}", n * 60.0, n * 60.0 + 60) for n in range(10)]  # slow ones come first
    seen = progress(kinds, now, now, (10, 1200), workers=1)
    assert seen.left < 1000 * 5 + 190 * 35
    now += [Ran(f"g{n}", 600 + n * 0.01, 600 + n * 0.01 + 0.01) for n in range(10, 200)]
    seen = progress(kinds, now, now, (200, 1200), workers=1)
    assert seen.left == pytest.approx(1000 * 5)


def test_what_ninja_does_not_repeat_is_done() -> None:
    kinds = {f"c{n}": "CXX" for n in range(2185)}
    log = [Ran(f"c{n}", 0, 5) for n in range(55)]
    seen = progress(kinds, log, [], (0, 2130), workers=2)
    assert (seen.done, seen.total) == (55, 2185)
    assert seen.left == pytest.approx(2130 * 5 / 2)


def test_one_file_again_is_not_an_hour() -> None:
    kinds = {f"c{n}": "CXX" for n in range(2184)} | {"lib": "link"}
    log = [Ran(name, 0, 4) for name in kinds]
    seen = progress(kinds, log, [], (0, 8), workers=2)
    assert (seen.done, seen.total) == (2177, 2185)
    assert seen.left == pytest.approx(8 * 4 / 2, rel=0.01)


def test_how_many_run_at_once_is_what_was_seen() -> None:
    kinds = {f"c{n}": "CXX" for n in range(100)}
    now = [Ran(f"c{n}", (n // 4) * 5.0, (n // 4) * 5.0 + 5) for n in range(40)]
    assert progress(kinds, now, now, (40, 100), workers=1).left == pytest.approx(60 * 5 / 4)


def test_without_the_files_of_ninja_its_counts_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    followed = Forecast(str(tmp_path / "none"), 2)
    with caplog.at_level(logging.INFO, "patchgen"):
        for line in (b"[0/1] Re-running CMake...\n", b"-- [1/2]\n", b"[3/7] Building CXX object\n"):
            followed.read(line)
    assert [(one.__dict__["done"], one.__dict__["total"]) for one in caplog.records] == [(3, 7)]


def test_a_line_that_is_being_written_waits(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text(NINJA)
    log = tmp_path / ".ninja_log"
    log.write_text("# ninja log v5\n0\t1500\t0\tcaffe2/a.cpp.o\tff\n0\t200\t0\tcaf")
    followed = Forecast(str(tmp_path), 2)
    followed.read(b"[1/6] Building\n")
    log.write_text(log.read_text() + "fe2/b.cpp.o\tff\n")
    followed.read(b"[2/6] Building\n")
    assert followed._log == [Ran("caffe2/a.cpp.o", 0, 1.5), Ran("caffe2/b.cpp.o", 0, 0.2)]
    assert forecast.steps(NINJA)
