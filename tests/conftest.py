"""No test sees the developer's own git configuration, HOME or switchml-patch variables."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator

import pytest

# Before they are imported: their assertions say what differs, as those of a test do.
pytest.register_assert_rewrite(
    *(f"support.{name}" for name in ("group_checks", "hosts", "page_ranks", "table"))
)

from pathlib import Path

from support import compiler_cache, costs
from support.chaos import report
from support.simulator import Home
from support.trees import Tree, commit, make

from patchgen.options import DEV_ROOT, VARIABLES

LONGEST_FIRST = (
    "integration/wheel/test_build.py",
    "integration/plugin/test_demo_command.py",
    "integration/real",
    "integration/run",
    "integration/wheel",  # finds what the first build has compiled
    "integration/apply/test_delegate.py",
    "integration/ranks/test_group.py",
    "integration/ranks/test_table.py",
    "integration/verify",
    "integration/ranks",
    "integration/plugin",
    "integration/apply",
    "integration/check",
    "integration/switch",
    "integration/graft",
    "integration/client",
    "integration/simulator",
)
TARGETS = {
    "cluster": (
        "SWITCHML_TEST_CLUSTER",
        "needs SLURM, Open MPI and two hosts: make test-cluster makes them",
    ),
    "image": ("SWITCHML_TEST_IMAGE", "needs buildah and a Debian 11: make test-image makes it"),
    "pages": ("SWITCHML_TEST_PAGES", "runs the pages' longer commands: make test-pages runs it"),
    "rebuild": ("SWITCHML_TEST_REBUILD", "takes long: make test-rebuild runs it"),
}
"""Marks of tests that `make test` leaves out: the variable that is set by their target, and why."""
_CACHE = pytest.StashKey["str | None"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    report.add_options(parser)
    costs.add_options(parser)


def pytest_configure() -> None:
    """Programs do not inherit that a signal is ignored, as under nohup or in the background.

    Nor that files of the tests can be written by others: no rank takes such a configuration.
    """
    os.umask(0o022)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        ignored = signal.getsignal(number) is signal.SIG_IGN
        if ignored and threading.current_thread() is threading.main_thread():
            signal.signal(number, lambda *_: None)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before the processes of the run are started, which inherit it.

    Messages of the tool name it as PATH does.
    """
    os.environ["PATH"] += os.pathsep + os.path.dirname(sys.executable)
    session.config.stash[_CACHE] = compiler_cache.use()


def pytest_collection_finish(session: pytest.Session) -> None:
    costs.start(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    made = yield
    costs.charge(item.config, made)
    return made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    costs.show(terminalreporter)


def pytest_unconfigure(config: pytest.Config) -> None:
    made = config.stash.get(_CACHE, None)
    if made is not None:
        shutil.rmtree(made, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what has a target of its own.

    Where several processes take files in turn, what takes longest comes first.
    """
    for name, (variable, reason) in TARGETS.items():
        if not os.environ.get(variable):
            for item in items:
                if item.get_closest_marker(name):
                    item.add_marker(pytest.mark.skip(reason))
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    path = item.path.relative_to(item.config.rootpath / "tests").as_posix()
    turns = [turn for turn, longest in enumerate(LONGEST_FIRST) if path.startswith(longest)]
    return min(turns, default=len(LONGEST_FIRST) + path.startswith("unit"))


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return an endless iterator over new paths, one for the home of each test.

    `mktemp` would list all earlier homes for each new one: seconds for some thousand tests.
    """
    made = tmp_path_factory.mktemp("homes")
    return (made / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def isolated(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    home = next(homes)
    home.mkdir()
    for name in [*os.environ]:
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    for variable in (*VARIABLES, DEV_ROOT):
        monkeypatch.delenv(variable.name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Tester")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "tester@localhost")
    return home


@pytest.fixture(scope="session")
def latin1(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a locale in which paths are not UTF-8."""
    if shutil.which("localedef") is None:
        pytest.skip("needs localedef, of the package libc-bin (or glibc-common)")
    directory = tmp_path_factory.mktemp("locales")
    command = ["localedef", "-i", "en_US", "-f", "ISO-8859-1", str(directory / "en_US.ISO-8859-1")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if not (directory / "en_US.ISO-8859-1" / "LC_CTYPE").exists():
        pytest.skip(f"localedef made no locale (install the package locales): {done.stderr}")
    return {"LOCPATH": str(directory), "LC_ALL": "en_US.ISO-8859-1", "PYTHONUTF8": "0"}


@pytest.fixture(scope="session")
def simulator_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The simulator and the driver of its workers, compiled once for all tests."""
    from support.simulator import installed_home  # in tests/integration

    return installed_home(tmp_path_factory)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return make(tmp_path / "pytorch")


@pytest.fixture
def checkout(tree: Tree) -> Tree:
    commit(tree.root)
    return tree
