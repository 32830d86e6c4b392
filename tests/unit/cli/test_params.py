"""Values of options that several commands have."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from patchgen.cli import main, params
from patchgen.errors import OptionsError


def test_without_a_home_the_cache_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(OptionsError, match="--cache or XDG_CACHE_HOME"):
        params.cache(None)
    assert params.cache("/named") == "/named"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert params.cache(None) == "/xdg/switchml-patch"


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
