"""An error that no code expects, in a program of its own."""

from __future__ import annotations

import os
import stat
import sys
from importlib import metadata
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.waiting import captured

from patchgen import __version__
from patchgen.cli.unexpected import find_tracker, redact, report
from patchgen.errors import EXIT_CODES, PatchgenError

PROGRAM = """
import sys
from patchgen.__main__ import main
from patchgen.core.patch import patches
from patchgen.system.process import run

def fail(*_):
    words = "print('the last words', 'https://me:hunter2@example.org/x')"
    run([sys.executable, "-c", words], limit=60)
    raise {error}

patches.make = fail
sys.argv = ["switchml-patch", "generate", "--switchml-home", "/opt/home", "-o", "x?token=hunter2"]
main()
"""
VALUE = "in-the-environment"


def fail(directory: Path, error: str = "TypeError('no {}'.format(len))") -> CompletedProcess[str]:
    return captured(
        [sys.executable, "-c", PROGRAM.format(error=error)],
        cwd=directory,
        env={"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(directory / "cache"), "T": VALUE},
    )


def logs(directory: Path) -> list[Path]:
    return [*directory.glob("cache/switchml-patch/logs/*.log")]


def test_it_is_one_line_and_a_log(tmp_path: Path) -> None:
    done = fail(tmp_path)
    assert done.returncode == PatchgenError.exit_code
    assert done.stdout == ""
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("error:")]
    assert done.stderr.endswith(f"{line}\n")
    assert "Traceback" not in done.stderr
    (log,) = logs(tmp_path)
    assert line.startswith("error: unexpected TypeError: no <built-in function len>; report it ")
    assert line.endswith(f"with the log {log}")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    text = log.read_text()
    assert "command:   switchml-patch generate --switchml-home /opt/home" in text
    assert f"version:   {__version__}, in " in text
    assert f"click {metadata.version('click')}" in text
    assert "\nTraceback (most recent call last):\n" in text
    assert "\nTypeError: no <built-in function len>\n" in text
    assert text.endswith("  the last words https://***@example.org/x\n")


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("\ud800 \x1b[1m\nand more"), r"ValueError: \ud800 \x1b[1m"),
        (SyntaxError("why", ("file.py", 3, 1, "text")), "SyntaxError: why; report"),
        (KeyError(), "KeyError"),
    ],
)
def test_any_error_is_a_line(
    error: Exception, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (line,) = report(error).splitlines()
    assert line.startswith(f"error: unexpected {shown}")
    assert len(logs(tmp_path)) == 1


def test_no_secret_is_in_it(tmp_path: Path) -> None:
    done = fail(tmp_path, "TypeError('got ' + __import__('os').environ['T'])")
    (log,) = logs(tmp_path)
    text = log.read_text()
    assert "\nTypeError: got $T\n" in text
    for secret in (VALUE, "hunter2"):
        assert secret not in done.stderr + text


def test_without_a_log_the_traceback_is_printed(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    done = fail(tmp_path)
    assert done.returncode == PatchgenError.exit_code
    assert "Traceback (most recent call last):\n" in done.stderr
    *_, line = done.stderr.splitlines()
    assert line.startswith("error: unexpected TypeError: ")
    assert line.endswith("(no log: Not a directory)")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("KeyboardInterrupt", 130, "interrupted\n"),
        ("__import__('patchgen.errors').errors.ToolError('gcc: why')", 4, "error: gcc: why\n"),
        ("SystemExit(7)", 7, ""),
    ],
)
def test_ends_that_are_expected_have_no_log(
    tmp_path: Path, error: str, code: int, said: str
) -> None:
    done = fail(tmp_path, error)
    assert done.returncode == code
    assert done.stderr.endswith(said)
    assert not logs(tmp_path)
    assert {0, 7, code} - {*EXIT_CODES} <= {7}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git+https://user:p@ss@host/a.git@v1", "git+https://***@host/a.git@v1"),
        ("https://host/a?X-Amz-Signature=f00&b=1 next", "https://host/a?*** next"),
        ("https://conda.example/t/tk-123/main", "https://conda.example/t/***/main"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("--set AWS_SECRET_ACCESS_KEY=abc --jobs 3", "--set AWS_SECRET_ACCESS_KEY=*** --jobs 3"),
        ("train.py --api-key 'a b' --lr 1", "train.py --api-key *** --lr 1"),
        ('{"password": "a b", "n": 1}', '{"password": ***, "n": 1}'),
        ("git@host:a.git, https://host/a", None),
    ],
)
def test_what_names_a_secret_is_replaced(text: str, shown: str | None) -> None:
    assert redact(text, {}) == (text if shown is None else shown)


def test_values_of_the_environment_are_replaced() -> None:
    environ = {"DB_PASS": "abcd", "KEY": "line one\nline two", "WIDE": "ab cd/ef"}
    environ["LANG"] = "C.UTF-8"  # as short as a word
    text = "abcd 'line one\\nline two' line two ab%20cd%2Fef ab cd/ef C.UTF-8"
    assert redact(text, environ) == "$DB_PASS '$KEY' $KEY $WIDE $WIDE C.UTF-8"


def test_the_tracker_of_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from email.message import Message

    about = Message()
    about["Project-URL"] = "Source, https://example.org/code"
    monkeypatch.setattr(metadata, "metadata", lambda _: about)
    assert find_tracker() == "where you got switchml-patch from"
    about["Project-URL"] = "Issues, https://example.org/issues"
    assert find_tracker() == "at https://example.org/issues"


@pytest.mark.parametrize(
    ("name", "value"),
    [("FOO", b"caf\xe9/longname"), ("HOME", b"/home/ren\xe9"), ("MY_TOKEN", b"\xff\xfe\xfd\xfc")],
)
def test_values_that_are_not_utf_8(tmp_path: Path, name: str, value: bytes) -> None:
    environ = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = PROGRAM.format(error=f"TypeError(__import__('os').environ['{name}'])")
    program = program.replace('"x?token=hunter2"', f'"x", "--builddir=/" + {os.fsdecode(value)!r}')
    done = captured(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**environ, name: os.fsdecode(value)},
    )
    assert done.returncode == PatchgenError.exit_code
    assert "Traceback" not in done.stderr
    (log,) = logs(tmp_path)
    text = log.read_text()
    assert f"\nTypeError: ${name}\n" in text
    assert f"--builddir=/${name}" in text


def test_an_error_of_the_report_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchgen.cli.unexpected.find_tracker", _fail)
    text = report(TypeError("a secret"))
    assert text.endswith("error: unexpected TypeError (no log: LookupError)\n")
    assert "a secret" not in text


def _fail() -> str:
    raise LookupError


def test_the_current_directory_is_gone_and_the_cache_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "no log" not in report(TypeError("why"))
    assert len(logs(tmp_path)) == 1
