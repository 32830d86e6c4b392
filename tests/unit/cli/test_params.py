"""Values of options that several commands have."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from patchgen.cli import main


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["verify", "python3"], "--timeout"),
        (["doctor"], "--timeout"),
        (["doctor", "--lab"], "--loss"),
        (["run", "--lab"], "--loss"),
        (["run", "--lab"], "--delay"),
        (["run", "--lab"], "--seed"),
        (["run"], "--max-restarts"),
        (["switch"], "--wait"),
    ],
)
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e300", "9" * 5000], ids=lambda v: v[:5])
def test_a_number_that_cannot_be_meant(command: list[str], option: str, value: str) -> None:
    done = CliRunner().invoke(main, [*command, option, value, "true"])
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.output
