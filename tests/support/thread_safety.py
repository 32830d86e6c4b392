"""Sources without their locks, which clang must refuse."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

_LOCK = re.compile(r"^(\s*(?:const )?MutexLock \w+)\((.+)\);$", re.MULTILINE)
_WAIT = re.compile(r"\.(?:wait\w*|notify_\w+)\(")
_ERROR = re.compile(r"^(.+?):(\d+):\d+: error: .*\[-Werror,-Wthread-safety", re.MULTILINE)


def locking(directory: Path) -> list[Path]:
    """Return the sources below a directory that take a lock."""
    sources = sorted(directory.rglob("*.?pp"))
    return [path for path in sources if _LOCK.search(path.read_text(encoding="utf-8"))]


def find_unchecked_locks(path: Path, mutant: Path, *options: str) -> list[str]:
    """Return the locks of a source that clang does not miss when they hold another mutex.

    All locks are changed at once, in `mutant`. clang reports an access without its mutex between
    a lock and the next one. It sees neither what the predicate of a wait reads, nor what the
    handler of an exception does, so locks for waits and notifications are left out.
    """
    source = path.read_text(encoding="utf-8")
    mutant.write_text(_LOCK.sub(r"Mutex other; \1(other);", source), encoding="utf-8")
    done = _check(mutant, f"-I{path.parent}", *options)
    assert done.returncode != 0, f"{path} is accepted without its locks"
    errors = [int(line) for name, line in _ERROR.findall(done.stderr) if Path(name) == mutant]
    locks = [*_LOCK.finditer(source)]
    ends = [*(lock.start(1) for lock in locks[1:]), len(source)]
    return [
        f"{path.name}:{_line(source, lock.start(1))}: {lock[0].strip()}"
        for lock, end in zip(locks, ends)
        if not _WAIT.search(source, lock.end(), end)
        and not any(_line(source, lock.start(1)) <= line < _line(source, end) for line in errors)
    ]


def _line(source: str, position: int) -> int:
    """Return the number of a line, from 1 on."""
    return source.count("\n", 0, position) + 1


def check_sources(path: Path, *options: str) -> None:
    """Assert that clang finds no access without its mutex in a source."""
    done = _check(path, *options)
    assert done.returncode == 0, done.stderr


def _check(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    checks = ["-fsyntax-only", "-Wthread-safety", "-Werror", "-ferror-limit=0"]
    command = ["clang++", "-x", "c++", *checks, *options, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
