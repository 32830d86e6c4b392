"""`graft install` and `graft uninstall`, with a torch of a few lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import graft as graft_support
from support.graft import Site, python_run
from support.modes import closed, umask
from support.trees import tool

SHOWN = "import torch, switchml_graft; print(torch.grafted, switchml_graft.loaded)"
STOCK = "import torch; print(torch.grafted)"


def test_installed_and_taken_away(site: Site) -> None:
    before = sorted(os.listdir(site.torch.site))
    message = site.install()
    assert message.startswith(f"installed in {site.package}: {site.python} loads it whenever")
    own = site.package / "graft.so"
    assert site.run("-c", SHOWN).stdout == f"True {own}\n"
    assert site.run("-I", "-c", SHOWN).stdout == f"True {own}\n"
    assert site.run("-c", STOCK, SWITCHML_GRAFT="0").stdout == "False\n"
    assert site.run("-S", "-c", "import sys; print('switchml_graft' in sys.modules)").stdout == (
        "False\n"
    )
    again = own.stat().st_ino
    site.install()
    assert own.stat().st_ino != again, "replaced, not written to: programs have it mapped"
    assert site.uninstall() == f"removed {site.package}\n"
    assert sorted(os.listdir(site.torch.site)) == before
    assert site.run("-c", STOCK).stdout == "False\n"
    assert site.uninstall() == f"{site.python}: no graft is installed; nothing to do\n"


def test_other_users_load_it_whatever_the_umask(site: Site) -> None:
    with umask(0o077):
        site.install()
    assert closed(site.package) == []
    assert [*site.package.parent.glob("*.pth")]
    assert {path.stat().st_mode & 0o044 for path in site.package.parent.glob("*.pth")} == {0o044}


def test_the_variable_wins_over_what_is_installed(site: Site, tmp_path: Path) -> None:
    site.install()
    other = site.torch.graft(tmp_path / "other.so")
    assert site.run("-c", SHOWN, SWITCHML_GRAFT=str(other)).stdout == f"True {other}\n"


def test_a_package_that_was_taken_away_by_hand(site: Site) -> None:
    site.install()
    subprocess.run(["rm", "-r", site.package], check=True)
    done = site.run("-c", STOCK)
    assert (done.stdout, done.stderr) == ("False\n", "")
    assert "removed" in site.uninstall()
    assert not site.path_file.exists()


def test_a_graft_of_another_torch_is_not_installed(site: Site, tmp_path: Path) -> None:
    other = graft_support.make(tmp_path / "other", "4.5.6", "f" * 40)
    message = Site(site.python, site.torch, other.graft(tmp_path / "x.so")).install(code=3)
    assert "for torch 4.5.6 (commit ffffffffffff, C++11 ABI 1), this is torch 1.2.3" in message
    assert not site.package.exists()
    message = Site(site.python, site.torch, tmp_path / "none.so").install(code=3)
    assert "No such file" in message


def test_what_cannot_be_written_is_reported_and_left_as_it_was(site: Site) -> None:
    site.package.write_text("a file of the user")
    message = site.install(code=5)
    assert f"{site.package}: File exists\n" in message
    assert "give --user, or a virtual environment of yours, or start" in message
    assert site.package.read_text() == "a file of the user"
    assert not site.path_file.exists()
    site.package.unlink()
    site.path_file.mkdir()
    assert "switchml_graft.pth" in site.install(code=5)
    site.path_file.rmdir()
    assert not (site.package / "graft.so").exists()


def test_a_file_of_the_user_in_the_package(site: Site) -> None:
    site.install()
    (site.package / "notes.txt").touch()
    assert f"{site.package}/notes.txt: not written by switchml-patch" in site.uninstall(code=3)
    assert (site.package / "graft.so").exists()
    (site.package / ".x.switchml-tmp").touch()  # of a run that was killed
    (site.package / "notes.txt").unlink()
    site.uninstall()
    assert not site.package.exists()


def test_for_one_user(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual environment has no directory of the user."""
    assert "drop --user" in site.install("--user", code=2)
    base: str = getattr(sys, "_base_executable", sys.executable)
    user = {"PYTHONUSERBASE": str(tmp_path / "user"), "PYTHONPATH": str(site.torch.site)}
    for name, value in user.items():
        monkeypatch.setenv(name, value)
    arguments = ["--torch", base, "--user"]
    output = tool("graft", "install", *arguments, str(site.library)).stderr
    (own,) = (tmp_path / "user").glob("lib/python*/site-packages/switchml_graft/graft.so")
    assert f"installed in {own.parent}" in output
    assert python_run(base, "-c", SHOWN, **user).stdout == f"True {own}\n"
    assert python_run(base, "-s", "-c", STOCK, **user).stdout == "False\n"
    tool("graft", "uninstall", *arguments)
    assert not own.parent.exists()
