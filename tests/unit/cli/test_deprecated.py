"""Old spellings do what the new ones do, after a line that names the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from patchgen.cli import main

if TYPE_CHECKING:
    from pathlib import Path

# Each command line ends with an error, so that nothing is built.
SPELLINGS = {
    "demo --python none": "demo --torch none",
    "run --python none -- python3 --python": "run --torch none -- python3 --python",
    "source tree --pytorch none": "source -o tree --pytorch none",
    "source --list tree --pytorch none": "source --list -o tree --pytorch none",
    "env create prefix --lock none": "env create -o prefix --lock none",
}


@pytest.mark.parametrize("old", SPELLINGS)
def test_old_spelling(old: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("not a clone")
    new = SPELLINGS[old]
    before, after = (CliRunner().invoke(main, words.split()) for words in (old, new))
    assert before.exit_code == after.exit_code != 0
    first, _, rest = before.output.partition("\n")
    assert rest == after.output
    assert first.startswith("warning: ")
    command, option = new.split()[0], {"-o", "--torch"} & {*new.split()}
    assert f"use main {command}" in first
    assert any(word in first.partition("; use ")[2] for word in option)


@pytest.mark.parametrize("words", ["demo --python a --torch b", "source a -o b"])
def test_both_spellings_are_refused(words: str) -> None:
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 2
    assert "is the old spelling of" in done.output


def test_old_spellings_are_not_in_the_help() -> None:
    for words, option in (("demo", "--python"), ("run", "--python")):
        assert option not in CliRunner().invoke(main, [*words.split(), "--help"]).output
    assert "[DIR]" not in CliRunner().invoke(main, ["source", "--help"]).output


@pytest.mark.parametrize("command", ["simulator install", "env create", "source"])
def test_output_that_is_required(command: str) -> None:
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code == 2
    assert "Missing option '-o' / '--output'." in done.output
