"""Sources without their locks, which clang must refuse."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

_LOCK = re.compile(r"^(\s*(?:const )?MutexLock \w+)\((.+)\);$", re.MULTILINE)
_WAIT = re.compile(r"\.(?:wait\w*|notify_\w+)\(")
_ERROR = re.compile(r"^(.+?):(\d+):\d+: error: .*\[-Werror,-Wthread-safety", re.MULTILINE)


def takes_locks(source: str) -> bool:
    return _LOCK.search(source) is not None


def find_unchecked_locks(sources: Mapping[Path, str], unit: Path, *options: str) -> list[str]:
    """Return the locks that clang does not miss when they hold another mutex.

    All locks are changed at once, in files that are written at the paths of `sources`. `unit` is
    one of them, or includes them. clang reports an access without its mutex between a lock and the
    next one. It sees neither what the predicate of a wait reads, nor what the handler of an
    exception does, so locks for waits and notifications are left out.
    """
    for path, source in sources.items():
        path.write_text(_LOCK.sub(r"Mutex other; \1(other);", source), encoding="utf-8")
    done = _check(unit, *options)
    errors = {(Path(name), int(line)) for name, line in _ERROR.findall(done.stderr)}
    assert errors, done.stderr
    return [
        f"{path.name}:{begin}: {lock}"
        for path, source in sources.items()
        for lock, begin, end in _checked_locks(source)
        if not any((path, line) in errors for line in range(begin, end))
    ]


def _checked_locks(source: str) -> Iterator[tuple[str, int, int]]:
    """Yield locks, with their lines and those of the next lock, but for waits and notifications."""
    locks = [*_LOCK.finditer(source)]
    ends = [*(lock.start(1) for lock in locks[1:]), len(source)]
    for lock, end in zip(locks, ends):
        if not _WAIT.search(source, lock.end(), end):
            yield lock[0].strip(), _line(source, lock.start(1)), _line(source, end)


def _line(source: str, position: int) -> int:
    """Return the number of a line, from 1 on."""
    return source.count("\n", 0, position) + 1


def check_sources(path: Path, *options: str) -> None:
    """Assert that clang finds no access without its mutex in a source."""
    done = _check(path, *options)
    assert done.returncode == 0, done.stderr


def _check(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    checks = ["-fsyntax-only", "-Werror=thread-safety", "-ferror-limit=0"]
    command = ["clang++", "-x", "c++", *checks, *options, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
