"""Values of options that several commands have."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import miniature

from patchgen.cli import main, params
from patchgen.core.patch import patches, pins
from patchgen.core.wheel import BuildRequest
from patchgen.errors import OptionsError
from patchgen.system.git import Head


def test_a_tree_is_of_the_pin_that_was_made_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files may be those of a shipped pin, byte for byte: two releases can have the same."""
    tree, file = tmp_path / "tree", str(tmp_path / "pin.json")
    shipped = (miniature.write(tree, "torch-csrc-2"),)
    monkeypatch.setattr(pins, "shipped", lambda: shipped)
    monkeypatch.setattr("patchgen.system.git.head", lambda _: Head("1" * 40))
    made = [str(tree), "--layout", "torch-csrc-2", "--name", "v0.0.2", "--commit", "1" * 40]
    for arguments in (
        ["pins", "make", *made, "-o", file],
        ["apply", str(tree), "--pytorch", file],
        ["revert", str(tree), "--pytorch", file],
    ):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
    assert "v0.0.2" in done.output
    assert pins.load(file).files == shipped[0].files


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


def test_the_request_of_a_build_is_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requests: list[BuildRequest] = []

    def plan(request: BuildRequest) -> None:
        requests.append(request)
        raise OptionsError("enough")

    monkeypatch.setattr("patchgen.core.wheel.plan", plan)
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "switchml.cfg"
    config.touch()
    done = CliRunner().invoke(
        main,
        [
            "build", "--dry-run", "--dpdk", "--pytorch", "v1.8.1", "--python", sys.executable,
            "--work", "work", "--builddir", "out", "--lock", "a.yml", "--cache", "cache",
            "--set", "USE_MKLDNN=0", "--jobs", "3", "--without", "third_party/x/",
            "--config", config.name, "--accept", "no-blas",
        ],
    )  # fmt: skip
    assert done.output == "error: enough\n"
    (request,) = requests
    assert (request.pin.name, request.options.flags) == ("v1.8.1", ("DPDK",))
    assert request.patch == patches.make(request.options, request.pin)
    assert (request.python, request.jobs) == (sys.executable, 3)
    assert (request.settings, request.without) == ({"USE_MKLDNN": "0"}, ("third_party/x",))
    assert (request.configs, request.accepted) == ((str(config),), ("no-blas",))
    places = (request.work, request.output, request.lock, request.cache)
    assert places == tuple(f"{tmp_path}/{name}" for name in ("work", "out", "a.yml", "cache"))
