"""Answers of probed interpreters: kept while nothing changes, else asked for again."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from support import graft as graft_support

from patchgen.core.torch import GRAFT, PLUGIN, TORCH, probe_torch
from patchgen.errors import ToolError
from patchgen.extras.install import graft
from patchgen.extras.install.payload import graft_hook

if TYPE_CHECKING:
    from pathlib import Path

    from support.graft import Site

    from patchgen.core.torch import Installed

pytestmark = pytest.mark.integration

REPORT = "def report(): return {'flags': %r, 'simulator': False}\n"


@dataclass(frozen=True)
class Probed:
    """A virtual environment with a torch of a few lines, which counts its imports."""

    site: Site
    python: Path
    directory: Path

    @property
    def imports(self) -> int:
        path = self.directory / "imports"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def count(self, torch: Path) -> None:
        with (torch / "__init__.py").open("a") as file:
            file.write(f"print(file=open({str(self.directory / 'imports')!r}, 'a'))\n")

    def probe(self, **environ: str) -> Installed:
        own = {"PATH": os.environ["PATH"], **environ}
        return probe_torch(str(self.python), own, cache=str(self.directory / "cache"))

    def probe_again(self, **environ: str) -> Installed:
        """Probes where torch has to be imported, and where the answer has to be kept."""
        before = self.imports
        answer = self.probe(**environ)
        assert self.imports == before + 1
        kept = self.probe(**environ)
        assert self.imports == before + 1
        assert (kept.torch, kept.reports) == (answer.torch, answer.reports)
        return kept

    @property
    def slots(self) -> list[Path]:
        return [*(self.directory / "cache").glob("run/*")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return graft_support.make_site(tmp_path_factory.mktemp("answers"))


@pytest.fixture
def probed(made: Site, tmp_path: Path) -> Probed:
    shutil.copytree(made.python.parents[1], tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    torch = graft_support.Fake(graft_support.site_of(python))
    probed = Probed(graft_support.Site(python, torch, made.library), python, tmp_path)
    probed.count(torch.root)
    return probed


def test_answer_is_kept(probed: Probed) -> None:
    installed = probed.probe_again()
    assert installed.torch is not None
    assert installed.torch.version == graft_support.VERSION
    assert (installed.root, installed.reports) == (str(probed.site.torch.root), {})


def test_upgraded_torch_is_seen(probed: Probed) -> None:
    probed.probe_again()
    path = probed.site.torch.root / "version.py"
    path.write_text(path.read_text().replace(graft_support.VERSION, "1.2.4"))
    installed = probed.probe_again()
    assert installed.torch is not None
    assert installed.torch.version == "1.2.4"


def test_change_whose_time_was_set_back_is_seen(probed: Probed) -> None:
    probed.probe_again()
    path = probed.site.torch.root / "version.py"
    before = path.stat()
    with path.open("r+") as file:  # the inode stays
        text = file.read().replace(graft_support.VERSION, "1.2.4")
        file.seek(0)
        file.write(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_ino) == (before.st_size, before.st_ino)
    installed = probed.probe_again()
    assert installed.torch is not None
    assert installed.torch.version == "1.2.4"


def test_installed_and_removed_graft_is_seen(probed: Probed) -> None:
    probed.probe_again()
    environ = {"PATH": os.environ["PATH"]}
    graft.install(str(probed.python), str(probed.site.library), environ)
    assert [*probed.probe_again().reports] == [GRAFT]
    library = probed.site.package / graft_hook.OWN
    library.write_bytes(library.read_bytes())
    assert [*probed.probe_again().reports] == [GRAFT]
    assert probed.probe_again(SWITCHML_GRAFT="0").reports == {}
    graft.uninstall(str(probed.python), environ)
    assert probed.probe_again().reports == {}


def test_installed_changed_and_removed_plugin_is_seen(probed: Probed) -> None:
    probed.probe_again()
    package = probed.site.torch.site / "torch_switchml"
    package.mkdir()
    module = package / "__init__.py"
    module.write_text(REPORT % "DPDK")
    assert probed.probe_again().reports[PLUGIN]["flags"] == "DPDK"
    module.write_text(REPORT % "RDMA")
    assert probed.probe_again().reports[PLUGIN]["flags"] == "RDMA"
    shutil.rmtree(package)
    assert probed.probe_again().reports == {}


def test_patched_module_is_seen(probed: Probed) -> None:
    probed.probe_again()
    (probed.site.torch.root / "distributed" / "switchml.py").write_text(REPORT % "")
    assert [*probed.probe_again().reports] == [TORCH]


def test_path_file_that_is_changed_in_place_is_seen(probed: Probed) -> None:
    path = probed.site.torch.site / "own.pth"
    path.write_text("import sys\n")
    probed.probe_again()
    path.write_text("import io\n")
    probed.probe_again()


def test_another_interpreter_at_the_same_path_is_seen(probed: Probed, tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(probed.python)
    linked = Probed(probed.site, link, tmp_path)
    # A link loses the virtual environment, so that its Python is told where the torch is.
    own = {"PYTHONPATH": str(probed.site.torch.site)}
    linked.probe_again(**own)
    link.unlink()
    link.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    link.chmod(0o755)
    assert linked.probe(**own).torch is None
    link.unlink()
    shutil.copy(os.path.realpath(probed.python), link)
    linked.probe_again(**own)


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "TORCH_SHOW_CPP_STACKTRACES", "ANY"])
def test_another_environment_is_seen(name: str, probed: Probed) -> None:
    probed.probe_again()
    probed.probe_again(**{name: "/x"})
    before = probed.imports
    probed.probe(**{name: "/x", "PWD": "/elsewhere", "SHLVL": "3"})
    assert probed.imports == before
    assert len(probed.slots) == 1


def test_failures_are_not_kept(probed: Probed) -> None:
    module = probed.site.torch.site / "torch_switchml.py"
    module.write_text("raise ImportError('undefined symbol: x')")
    for _ in range(2):
        assert "undefined symbol" in probed.probe().plugin.problem
    assert probed.imports == 2
    start = probed.site.torch.root / "__init__.py"
    text = start.read_text()
    start.write_text("raise OSError('libcudart.so: cannot open')")
    for _ in range(2):
        with pytest.raises(ToolError, match="libcudart"):
            probed.probe().require_gloo()
    assert probed.slots == []
    start.write_text(text)
    module.unlink()
    probed.probe_again()


def test_file_that_changes_while_torch_is_imported_is_not_kept(probed: Probed) -> None:
    version = probed.site.torch.root / "version.py"
    start = probed.site.torch.root / "__init__.py"
    text = start.read_text()
    start.write_text(f"{text}\nimport os\nos.utime({str(version)!r})\n")
    for count in (1, 2):
        assert probed.probe().torch is not None
        assert probed.imports == count
    start.write_text(text)
    probed.probe_again()


def test_damaged_answers_are_asked_for_again(probed: Probed) -> None:
    probed.probe_again()
    (slot,) = probed.slots
    whole = slot.read_text()
    for text in ("", "[]", whole[:-2], json.dumps({**json.loads(whole), "files": 1})):
        slot.write_text(text)
        probed.probe_again()


def test_cache_that_cannot_be_written_is_done_without(probed: Probed, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    for count in (1, 2):
        assert probed.probe().torch is not None
        assert probed.imports == count
