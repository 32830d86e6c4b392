"""What people see: help in groups, and steps as the package logs them."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.programs import script

from docs.reference import commands
from patchgen.cli import SECTIONS, main
from patchgen.cli.console import copyable, progress

LOGGER = logging.getLogger("patchgen.anything")
COMMANDS = {name.strip(): command for name, command in commands(main, "")}


def help_of(*arguments: str) -> str:
    return CliRunner().invoke(main, [*arguments, "--help"]).output


def test_commands_are_listed_by_what_a_newcomer_needs_first() -> None:
    text = help_of()
    places = [text.index(f"\n{section}:") for section in SECTIONS]
    assert places == sorted(places)
    assert all(f"\n  {name} " in text for names in SECTIONS.values() for name in names)


@pytest.mark.parametrize("name", ["", *(name for name in COMMANDS if " " not in name)])
def test_no_line_of_help_is_cut(name: str) -> None:
    lines = help_of(*name.split()).splitlines()
    assert not [line for line in lines if line.startswith("  ") and line.endswith("...")]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_many_options_are_in_groups(name: str) -> None:
    text, command = help_of(*name.split()), COMMANDS[name]
    options = [one for one in command.params if isinstance(one, click.Option)]
    for option in options:
        assert option.opts[-1] in text
    groups = {getattr(option, "group", None) for option in options} - {None}
    headings = [heading for heading in groups if f"\n{heading}:\n" in text]
    assert bool(headings) == (len(options) + 1 > 10)


def test_steps_are_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress():
        LOGGER.info("first")
        LOGGER.debug("not told")
        LOGGER.info("second")
        for done in range(201):
            LOGGER.info("", extra={"done": done, "total": 200})
    LOGGER.info("nobody listens")
    tenths = [f"  {20 * tenth} of 200, 0 s" for tenth in range(11)]
    assert capsys.readouterr().err.splitlines() == ["first", "second", *tenths]


def test_the_time_so_far_is_in_lines_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 45.0, 0.0, 3600.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    with progress():
        for _ in range(2):
            LOGGER.info("step")
            LOGGER.info("", extra={"done": 1, "total": 10})
    assert capsys.readouterr().err.splitlines()[1::2] == ["  1 of 10, 45 s", "  1 of 10, 60 min"]


@pytest.mark.parametrize("command", ["simulator install", "env create", "source"])
def test_output_that_is_required(command: str) -> None:
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code == 2
    assert "Missing option '-o' / '--output'." in done.output


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("run: switchml-patch env lock; or", "run: {} env lock; or"),
        (
            "`switchml-patch check` and switchml-patch plugin build",
            "`{} check` and {} plugin build",
        ),
        ("this switchml-patch has no fix; see /opt/switchml-patch build", None),
        ("export X=1", None),
    ],
)
@pytest.mark.parametrize("place", ["bin", "my bin"])
@pytest.mark.parametrize("there", [True, False])
def test_commands_in_messages_can_be_copied(  # each is one axis
    line: str, shown: str | None, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    *, there: bool,
) -> None:  # fmt: skip
    own = script(tmp_path / place / "switchml-patch", "#!/bin/sh\n")
    script(tmp_path / "other" / "switchml-patch", "#!/bin/sh\n")
    monkeypatch.setattr("sys.argv", [str(own)])
    monkeypatch.setenv("PATH", str(own.parent if there else tmp_path / "other"))
    with click.Context(main):
        expected = "switchml-patch" if there else shlex.quote(str(own))
        assert copyable(line) == (line if shown is None else shown.format(expected, expected))


def test_a_tool_without_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(tmp_path / "patchgen" / "__main__.py")])
    monkeypatch.setattr("sys.executable", str(tmp_path / "python3"))
    with click.Context(main):
        assert copyable("see switchml-patch pins") == f"see {tmp_path}/python3 -m patchgen pins"


def test_an_error_names_the_program_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = script(tmp_path / "switchml-patch", "#!/bin/sh\n")
    monkeypatch.setattr("sys.argv", [str(own)])
    done = CliRunner().invoke(main, ["env", "create", "-o", str(tmp_path / "x"), "--lock", "none"])
    assert f"make it with: {own} env lock" in done.output
