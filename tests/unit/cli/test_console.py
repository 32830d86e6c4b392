"""What people see: help in groups, and steps as the package logs them."""

from __future__ import annotations

import logging

import click
import pytest
from click.testing import CliRunner

from docs.reference import commands
from patchgen.cli import SECTIONS, main
from patchgen.cli.console import progress

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


@pytest.mark.parametrize("command", ["run", "switch", "accuracy"])
def test_a_seed_is_where_its_choices_are(command: str) -> None:
    lines = help_of(command).splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("  --seed ")]
    assert lines[at - 1].startswith("  "), "the first of its group"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_many_options_are_in_groups(name: str) -> None:
    text, command = help_of(*name.split()), COMMANDS[name]
    options = [one for one in command.params if isinstance(one, click.Option)]
    for option in options:
        assert option.opts[-1] in text
    groups = {getattr(option, "group", None) for option in options} - {None}
    headings = [heading for heading in groups if f"\n{heading}:\n" in text]
    assert bool(headings) == (len(options) + 1 > 10)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_line_of_help_says_what_it_is_first(name: str) -> None:
    for option in COMMANDS[name].params:
        if isinstance(option, click.Option):
            assert option.help
            assert option.help[0].isupper()
            assert option.help.split()[0] not in {"Of", "As", "That", "Whose", "Where", "Instead"}


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
