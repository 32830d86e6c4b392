"""Arguments that a shell makes of an unset variable, in every command."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from patchgen.cli import main, path_types
from patchgen.errors import OptionsError


def walk(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", one) for inner, one in walk(command, context))


COMMANDS = dict(walk(main, click.Context(main)))
PATHS = [
    (name, parameter)
    for name, command in COMMANDS.items()
    for parameter in command.params
    if isinstance(parameter.type, click.Path) or "--pytorch" in parameter.opts
]


@pytest.mark.parametrize(
    ("name", "parameter"), PATHS, ids=[f"{name} {one.name}" for name, one in PATHS]
)
def test_an_empty_path_is_refused(name: str, parameter: click.Parameter) -> None:
    assert isinstance(parameter.type, path_types.Named)
    with pytest.raises(OptionsError, match=" is empty; name one"):
        parameter.type.convert("", parameter, click.Context(COMMANDS[name]))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["apply", ""], "error: TREE is empty; name one\n"),
        (["apply", "x", "--patch", ""], "error: --patch is empty; name one, or drop the option\n"),
        (["source", "--without", ""], "error: --without is empty; name one, or drop the option\n"),
    ],
)
def test_the_message_is_one_line(command: list[str], message: str) -> None:
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, done.output) == (2, message)


def test_an_empty_home_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "")
    assert CliRunner().invoke(main, ["pins"]).exit_code == 0
    assert "HOME" not in os.environ


def test_a_message_has_nothing_that_a_terminal_obeys() -> None:
    done = CliRunner().invoke(main, ["status", "a\nb\x1b[1m\udcff"])
    assert done.exit_code == 3
    assert done.output.startswith(r"error: a\nb\x1b[1m\xff: no such directory, python or wheel")
    assert len(done.output.splitlines()) == 1
