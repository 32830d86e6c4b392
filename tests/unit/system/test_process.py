"""How programs are run: what they get, how they end, and that none is left."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.waiting import ENOUGH, captured, has_ended, read_rest, until

import patchgen
from patchgen.errors import ToolError
from patchgen.system.payload import supervisor
from patchgen.system.process import (  # fmt: skip
    ERR,
    LIMIT,
    OUT,
    NoAnswer,
    Program,
    capture,
    run,
    side_by_side,
    stream,
)
from patchgen.system.program import without_git

FD_SETSIZE = 1024  # of select(2)
# Tells the process that it starts, and waits for it in vain.
HANGS = 'sleep 600 & echo "$!" >"$0.part"; mv "$0.part" "$0"; wait'
# The same, but what it starts has a session of its own and nobody who waits for it.
ESCAPES = 'setsid sh -c \'echo "$$" >"$0.part"; mv "$0.part" "$0"; exec sleep 600\' "$0" & '
supervised = pytest.mark.parametrize("supervised", [False, True])


def python(code: str, *, cwd: Path | None = None, **given: object) -> Program:
    if cwd is not None:
        cwd.mkdir(exist_ok=True)
    return Program([sys.executable, "-c", code], cwd, **given)  # type: ignore[arg-type]


@supervised
def test_output_and_input_are_bytes(*, supervised: bool) -> None:
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])"
    command = [sys.executable, "-c", code]
    assert run(command, stdin=b"\xff\0a", limit=None, supervised=supervised) == b"a\0\xff"
    big = b"\xff\0a" * 100_000
    assert run(command, stdin=big, limit=LIMIT, supervised=supervised) == big[::-1]


PLACE = """
import os
try:
    os.close(os.open("/dev/tty", os.O_RDWR))
except OSError:
    print(os.getsid(0), os.getpgrp())
"""
AT_TERMINAL = """
import os, sys
from patchgen.system.process import Program, side_by_side
program = Program([sys.executable, "-c", sys.argv[1]])
for ended in side_by_side([program] * 2, limit=60, patience=1):
    print(os.getsid(0), os.getpgrp(), ended.out.decode(), end=" ")
"""


def test_programs_side_by_side_share_a_session_and_no_terminal() -> None:
    """Else Linux may starve ranks that poll, or a signal of the terminal comes to them twice."""
    command = shlex.join([sys.executable, "-c", AT_TERMINAL, PLACE])
    at_terminal = ["script", "-qec", command, "/dev/null"]
    root = Path(patchgen.__file__).parents[1]
    done = captured(at_terminal, cwd=root, stdin=subprocess.DEVNULL, check=True)
    session, group, one, first, _, _, other, second = map(int, done.stdout.split())
    assert one == other == session, done.stdout
    assert len({group, first, second}) == 3


@supervised
def test_without_input_there_is_none_to_wait_for(*, supervised: bool) -> None:
    assert run(["cat"], limit=LIMIT, supervised=supervised) == b""


def test_input_that_nobody_reads_does_no_harm() -> None:
    assert run(["true"], stdin=bytes(1 << 20), limit=LIMIT) == b""


@pytest.mark.parametrize("limit", [None, LIMIT])
def test_a_failure_shows_command_code_and_the_tail_of_stderr(limit: float | None) -> None:
    code = "import sys; [print(i, file=sys.stderr) for i in range(100)]; sys.exit(7)"
    with pytest.raises(ToolError) as caught:
        run([sys.executable, "-c", code], limit=limit)
    message = str(caught.value)
    assert "return code 7" in message
    assert sys.executable in message
    assert message.endswith("98\n99")
    assert "\n50\n" not in message


@supervised
def test_a_missing_program_is_named(tmp_path: Path, *, supervised: bool) -> None:
    with pytest.raises(ToolError, match=r"no-such-program.*No such file.*installed"):
        run(["no-such-program"], limit=None, supervised=supervised)
    with pytest.raises(ToolError, match=r"Permission denied; is it installed"):
        run([tmp_path], limit=LIMIT, supervised=supervised)
    with pytest.raises(ToolError, match="no directory"):
        run([sys.executable], cwd=tmp_path / "gone", limit=None, supervised=supervised)


def test_too_many_open_files_is_not_blamed_on_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("subprocess.Popen", refuse)
    with pytest.raises(
        ToolError, match=r"^true: Too many open files; .* raise the limit"
    ) as caught:
        run(["true"], limit=None)
    assert "installed" not in str(caught.value)


@pytest.mark.parametrize(
    ("argv", "limit", "reason"),
    [
        (["sh", "-c", "echo first >&2; echo ' why ' >&2; exit 3"], LIMIT, "why"),
        (["sh", "-c", "exit 3"], LIMIT, "return code 3"),
        (["no: such; program"], LIMIT, "No such file or directory"),
        (["sh", "-c", "sleep 60"], 0.1, "no answer in 0.1 s"),
    ],
)
def test_an_error_carries_its_reason(argv: list[str], limit: float, reason: str) -> None:
    with pytest.raises(ToolError) as caught:
        run(argv, limit=limit)
    assert caught.value.reason == reason


def test_git_never_sees_the_variables_of_another_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert without_git({"GIT_DIR": "x", "PATH": "y"}) == {"PATH": "y"}
    git = tmp_path / "git"
    git.write_text('#!/bin/sh\necho "$GIT_DIR"\n')
    git.chmod(0o755)
    environ = {**os.environ, "GIT_DIR": "another"}
    monkeypatch.setenv("GIT_DIR", "ours")
    assert run([git], limit=LIMIT) == b"\n"
    assert run([git], env=environ, limit=LIMIT) == b"\n"
    made = Program([git], env=environ, for_git=True)
    assert capture(made, limit=LIMIT).out == b"another\n"
    assert run(["sh", git], env=environ, limit=LIMIT) == b"another\n"


@supervised
def test_the_return_code_is_that_of_the_program(*, supervised: bool) -> None:
    for code, how in (
        ("raise SystemExit(3)", "ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 11)", "died of SIGSEGV"),
        ("import os; os.kill(os.getpid(), 9)", "died of SIGKILL"),
        ("", ""),
    ):
        assert capture(python(code, supervised=supervised), limit=LIMIT).how == how


@supervised
def test_a_program_that_hangs_is_ended_with_what_it_started(
    tmp_path: Path, *, supervised: bool
) -> None:
    path = tmp_path / "pid"
    with pytest.raises(NoAnswer, match=r"no answer in 0\.5 s"):
        run(["sh", "-c", HANGS, path], limit=0.5, supervised=supervised)
    assert not path.exists() or has_ended(path.read_text().strip())


@supervised
@pytest.mark.parametrize("limit", [600, None])
def test_a_signal_ends_the_program_too(
    tmp_path: Path, limit: float | None, *, supervised: bool
) -> None:
    stop = threading.Event()
    path = tmp_path / "pid"
    command: list[str | Path] = ["sh", "-c", HANGS, path]
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(run, command, limit=limit, stop=stop, supervised=supervised)
        until(path.exists)
        stop.set()
        with pytest.raises(NoAnswer, match=r": stopped$"):
            call.result(ENOUGH)
    assert has_ended(path.read_text().strip())


def test_what_a_supervised_program_leaves_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    script = ESCAPES + 'until [ -e "$0" ]; do sleep 0.01; done'
    run(["sh", "-c", script, path], limit=None, supervised=True)
    assert has_ended(path.read_text().strip())


# Kernels and sandboxes that lack something, as lines for the supervisor's module.
LACKING = {
    "children": (
        "read = _read\n"
        "def _read(pid, name): return read(pid, name.replace('children', 'no-such-file'))"
    ),
    "exit of orphans": "_PR_SET_CHILD_SUBREAPER = 1 << 20",
    "/proc": "os.listdir = lambda _: []; os.readlink = _read = lambda *_: open('/no/such/file')",
}


@pytest.fixture(params=LACKING)
def lacking(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Start programs by a supervisor on a kernel that lacks something."""
    program = tmp_path / "supervisor.py"
    source = Path(supervisor.__file__).read_text()
    main = 'if __name__ == "__main__":'
    assert main in source
    program.write_text(source.replace(main, f"{LACKING[request.param]}\n{main}"))
    monkeypatch.setattr("patchgen.system.program._SUPERVISOR", str(program))
    return str(request.param)


def test_a_kernel_that_lacks_something(lacking: str, tmp_path: Path) -> None:
    """The program's code and output, and the end of all that it started."""
    path = tmp_path / "pid"
    script = 'sleep 600 & echo "$!" >"$0"; echo said; exit 3'
    program = Program(["sh", "-c", script, path], supervised=True)
    done = capture(program, limit=LIMIT)
    assert (done.code, done.out, done.err) == (3, b"said\n", b""), lacking
    assert has_ended(path.read_text().strip())


@pytest.mark.parametrize("lacking", ["children"], indirect=True)
def test_a_signal_where_the_kernel_lists_no_children(lacking: str, tmp_path: Path) -> None:
    """It comes to what the program started, also into a session of its own, as at other times."""
    path, told = tmp_path / "pid", tmp_path / "told"
    inner = f"trap 'echo > {shlex.quote(str(told))}; exit' TERM; echo $$ >\"$0\"; sleep 600 & wait"
    script = f'sh -c {shlex.quote(inner)} "$0" & wait'
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        program = Program(["sh", "-c", script, path], supervised=True, grace=ENOUGH)
        call = pool.submit(stream, program, lambda *_: None, limit=None, stop=stop)
        until(path.exists)
        stop.set()
        with pytest.raises(NoAnswer):
            call.result(ENOUGH)
    assert told.exists(), lacking
    assert has_ended(path.read_text().strip())


@supervised
def test_descriptors_above_those_of_select(*, supervised: bool) -> None:
    with contextlib.ExitStack() as stack:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 2 * FD_SETSIZE:
            pytest.skip(f"needs {2 * FD_SETSIZE} descriptors; the limit is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * FD_SETSIZE), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(FD_SETSIZE):
            stack.enter_context(open(os.devnull, "rb"))
        code = "print('one')"
        assert run([sys.executable, "-c", code], limit=LIMIT, supervised=supervised) == b"one\n"
        lines: list[tuple[str, bytes]] = []
        program = python(code, supervised=supervised)
        assert stream(program, lambda *line: lines.append(line), limit=LIMIT) == 0
        assert lines == [(OUT, b"one\n")]


FAILING = """
import os, runpy, select, sys, time
class Poll:
    def register(self, *_): pass
    def poll(self):
        while not os.path.exists(sys.argv[-1]): time.sleep(0.01)
        raise OSError("poll")
select.poll = Poll
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def test_a_supervisor_that_fails_leaves_no_process(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    (stop, hold), (_, tells) = os.pipe(), os.pipe()
    command = ["sh", "-c", ESCAPES + "sleep 600", str(path)]
    failing = [sys.executable, "-c", FAILING, supervisor.__file__, str(stop), str(tells), *command]
    done = captured(failing, pass_fds=[stop, tells])
    for descriptor in (stop, hold, _, tells):
        os.close(descriptor)
    assert done.returncode == 1
    assert "OSError: poll" in done.stderr
    assert has_ended(path.read_text().strip())


def test_what_a_supervisor_leaves_that_was_killed_ends_with_the_run(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    code = (
        "import os, signal, time\n"
        "print(os.getpid(), flush=True); os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)"
    )

    def output(_: str, line: bytes) -> None:
        path.write_bytes(line)
        threading.Timer(0.5, stop.set).start()

    stop = threading.Event()
    with pytest.raises(NoAnswer):
        stream(python(code, supervised=True), output, limit=None, stop=stop)
    assert has_ended(path.read_text().strip())


@supervised
def test_it_has_time_to_end_by_itself(tmp_path: Path, *, supervised: bool) -> None:
    """Only the program is told; what it says until it ends is given out."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        "def told(*_): os.write(1, b'told\\n'); helper.wait(); sys.exit()\n"
        "signal.signal(signal.SIGTERM, told)\n"
        "helper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(0.5)'])\n"
        "os.write(1, b'ready\\n'); time.sleep(600)"
    )
    stop, lines = threading.Event(), []

    def output(_: str, line: bytes) -> None:
        lines.append(line)
        stop.set()

    program = python(code, cwd=tmp_path / "a", grace=ENOUGH, supervised=supervised)
    with pytest.raises(NoAnswer):
        stream(program, output, limit=None, stop=stop)
    assert lines == [b"ready\n", b"told\n"]


def test_an_interruption_is_handed_on_as_such() -> None:
    code = (
        "import time\n"
        "try: print('ready', flush=True); time.sleep(600)\n"
        "except KeyboardInterrupt: print('interrupted', flush=True)"
    )
    lines = []

    def output(_: str, line: bytes) -> None:
        lines.append(line)
        if len(lines) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream(python(code, grace=ENOUGH, supervised=True), output, limit=None)
    assert lines == [b"ready\n", b"interrupted\n"]


@supervised
def test_it_is_killed_where_it_does_not_end(tmp_path: Path, *, supervised: bool) -> None:
    path = tmp_path / "pid"
    deaf = 'trap "" TERM; ' + HANGS
    program = Program(["sh", "-c", deaf, path], supervised=supervised, grace=0.2)
    with pytest.raises(NoAnswer, match=r"no answer in 0\.5 s"):
        capture(program, limit=0.5)
    assert not path.exists() or has_ended(path.read_text().strip())


def test_lines_come_as_they_are_written(tmp_path: Path) -> None:
    """The program waits for what is done with its first line."""
    code = (
        "import os, sys, time\n"
        "print('one', flush=True)\n"
        "while not os.path.exists('seen'): time.sleep(0.01)\n"
        "print('two', file=sys.stderr, flush=True); print('three', end='')\n"
    )
    lines = []

    def output(name: str, line: bytes) -> None:
        lines.append((name, line))
        (tmp_path / "a" / "seen").touch()

    assert stream(python(code, cwd=tmp_path / "a"), output, limit=LIMIT) == 0
    assert lines == [(OUT, b"one\n"), (ERR, b"two\n"), (OUT, b"three\n")]


def test_both_streams_as_one_keep_their_order() -> None:
    code = (
        "import sys\n"
        "for i in range(50): print(i, file=[sys.stdout, sys.stderr][i % 2], flush=True)\n"
        "sys.exit(4)"
    )
    lines: list[tuple[str, bytes]] = []
    program = python(code, supervised=True, merged=True)
    assert stream(program, lambda *line: lines.append(line), limit=LIMIT) == 4
    assert lines == [(OUT, b"%d\n" % i) for i in range(50)]


def test_several_run_at_once_and_get_their_line(tmp_path: Path) -> None:
    """Each waits for what the other writes."""
    code = (
        "import os, sys, time\n"
        "mine, other = sys.stdin.readline().split()\n"
        "open('../' + mine, 'w').close()\n"
        "while not os.path.exists('../' + other): time.sleep(0.01)\n"
        "print('done'); print('told', file=sys.stderr)\n"
    )
    pair = [python(code, cwd=tmp_path / a, stdin=f"x{a} x{b}\n".encode()) for a, b in ("pq", "qp")]
    for ended in side_by_side(pair, limit=60, patience=10):
        assert (ended.out, ended.how, ended.last_lines(3)) == (b"done\n", "", ["told"])


def test_the_limit_is_for_all_of_them() -> None:
    done = side_by_side([Program(["sleep", "600"])] * 2, limit=0.2, patience=600)
    assert [ended.how for ended in done] == ["did not end within 0.2 s"] * 2


def test_only_the_end_of_much_output_is_kept() -> None:
    code = "print('first'); [print('x' * 99) for _ in range(20000)]; print('last')"
    (ended,) = side_by_side([python(code)], limit=60, patience=1)
    assert ended.out.endswith(b"last\n")
    assert len(ended.out) == 1 << 20
    assert b"first" not in ended.out
    assert b"first" in capture(python(code), limit=60).out


def test_one_that_cannot_be_started_takes_the_others_along(tmp_path: Path) -> None:
    first = python("import time; time.sleep(2); open('over', 'w')", cwd=tmp_path / "a")
    with pytest.raises(ToolError, match="Permission denied"):
        side_by_side([first, Program([tmp_path])], limit=60, patience=1)
    assert not (tmp_path / "a" / "over").exists()


PARENT = """
import sys
from patchgen.system import process, signals
program = process.Program(["sh", "-c", {script!r}, sys.argv[1]], supervised=True)
ways = {{
    "capture": lambda: process.capture(program, limit=None),
    "stream": lambda: process.stream(program, print, limit=None),
    "side_by_side": lambda: process.side_by_side([program], limit=600, patience=1),
}}
with signals.cleaning_up():
    ways[sys.argv[2]]()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("way", ["capture", "stream", "side_by_side"])
def test_nothing_is_left_however_this_process_ends(
    way: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Not even what has taken a session of its own."""
    path = tmp_path / "pid"
    code = PARENT.format(script=ESCAPES + "sleep 600")
    with subprocess.Popen(
        [sys.executable, "-c", code, path, way], stderr=subprocess.PIPE, text=True
    ) as parent:
        until(path.exists, parent)
        parent.send_signal(number)
        read_rest(parent)
    assert parent.returncode == -number
    assert has_ended(path.read_text().strip())


@supervised
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError])
def test_an_exception_ends_a_program(
    error: Callable[[], BaseException], tmp_path: Path, *, supervised: bool
) -> None:
    path = tmp_path / "pid"

    def output(_name: str, _line: bytes) -> None:
        raise error()

    script = 'sleep 600 & echo "$!" >"$0"; echo x; wait'
    program = Program(["sh", "-c", script, path], supervised=supervised)
    with pytest.raises(error):  # type: ignore[call-overload]
        stream(program, output, limit=None)
    assert has_ended(path.read_text().strip())
