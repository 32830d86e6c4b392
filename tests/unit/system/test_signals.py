"""How the program ends, also before there is a command."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from support.first_process import first
from support.waiting import captured

from patchgen.system import signals
from patchgen.system.payload import supervisor


def interrupted(module: str, number: int) -> list[str]:
    """Return a command that gets a signal when it imports a module."""
    finder = f"""
import importlib.abc, importlib.util, os, sys, time
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), {number})
            time.sleep(600)
sys.meta_path.insert(0, Finder())
for name in [name for name in sys.modules if name.split(".")[0] == {module!r}]:
    del sys.modules[name]
from patchgen.__main__ import main
main()
"""
    return [sys.executable, "-c", finder, "generate", "-o", os.devnull]


@pytest.mark.parametrize(
    ("number", "code", "message"), [(2, 130, "interrupted\n"), (15, -15, ""), (1, -1, "")]
)
@pytest.mark.parametrize("module", ["click", "json", "patchgen.cli.generate"])
def test_a_signal_while_modules_are_imported(
    module: str, number: int, code: int, message: str
) -> None:
    done = captured(interrupted(module, number), timeout=120)
    assert done.stderr == message
    assert done.returncode == code


@pytest.mark.parametrize("number", [signal.SIGINT, *signals.ENDING], ids=lambda one: one.name)
def test_the_first_process_of_a_container_ends_as_well(number: int) -> None:
    done = captured(first(interrupted("click", number)), timeout=120)
    assert done.returncode == 128 + number, done.stderr


def test_the_supervisor_as_the_first_process_of_a_container() -> None:
    (stop, hold), (message, tells) = os.pipe(), os.pipe()
    own = [sys.executable, "-I", supervisor.__file__, str(stop), str(tells)]
    done = captured(first([*own, "sh", "-c", "kill -KILL $$"]), pass_fds=[stop, tells])
    for descriptor in (stop, hold, message, tells):
        os.close(descriptor)
    assert (done.returncode, done.stderr) == (128 + signal.SIGKILL, "")


@pytest.mark.parametrize("loaded", ["rattler", "another"])
@pytest.mark.parametrize(("argument", "code"), [("--version", 0), ("--nothing", 2)])
def test_an_interpreter_with_the_threads_of_rattler_is_not_taken_apart(
    loaded: str, argument: str, code: int
) -> None:
    """They may hold its lock, and it aborts then."""
    program = f"""
import sys, types
class Kept:
    def __del__(self):
        print("taken apart")
kept = Kept()
sys.modules.setdefault({loaded!r}, types.ModuleType({loaded!r}))
from patchgen.__main__ import main
main()
"""
    done = captured([sys.executable, "-c", program, argument], timeout=120)
    assert done.returncode == code
    assert done.stdout or done.stderr
    assert ("taken apart" in done.stdout) == (loaded != "rattler")
